// Command shim lets the Databricks SQL driver for Go talk to Spark's own Thrift server, HiveThriftServer2 in binary mode without
// authentication. Databricks speaks the same protocol, with additions: the shim takes those out of what the driver sends, does
// what they ask for, and puts them into what Spark answers. Numbers are those of the fields in TCLIService.thrift; from 1281 on
// they are Databricks's.
//
// What the driver would otherwise do without a word: read no rows at all, drop parameters, cut results off, wait a second for each
// statement, report no affected rows and errors without a text.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"time"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "`address` to listen on")
	spark := flag.String("spark", "", "`address` of Spark's Thrift server")
	token := flag.String("token", "", "access token to ask for")
	direct := flag.Duration("direct", 5*time.Second, "how long a statement may take and still be answered with its result")
	wait := flag.Duration("wait", time.Minute, "how long to wait until Spark carries out a statement; the shim listens only then")
	trace := flag.Bool("trace", false, "log each call")
	flag.Parse()
	if *spark == "" || *token == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	s := &shim{upstream: newUpstream(*spark), token: *token, direct: *direct, trace: *trace}
	if err := s.await(*wait); err != nil {
		log.Fatalf("Spark does not answer after %v: %v", *wait, err)
	}
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on %s", l.Addr())
	log.Fatal(http.Serve(l, s))
}

// await returns when Spark has carried out a statement.
func (s *shim) await(patience time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var last error
	for ctx.Err() == nil {
		if last = s.probe(ctx); last == nil {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
	return last
}

func (s *shim) probe(ctx context.Context) error {
	opened, err := s.upstream.call(ctx, "OpenSession", st(tI32, 1, protocolAsked))
	if err != nil {
		return err
	}
	session := opened.sub(3)
	if session == nil {
		return fmt.Errorf("OpenSession: %s", opened.text(1, 5))
	}
	_, _, err = s.query(ctx, session, "SELECT 1", 1)
	_, _ = s.upstream.call(ctx, "CloseSession", st(tStruct, 1, session))
	return err
}

func (s *shim) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer "+s.token {
		w.Header().Set("X-Databricks-Reason-Phrase", "Invalid access token.")
		http.Error(w, "Invalid access token.", http.StatusForbidden)
		return
	}
	m, err := readMessage(bufio.NewReader(r.Body))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	start := time.Now()
	answer, err := s.handle(r.Context(), m)
	if s.trace || err != nil {
		log.Printf("%s %v %v", m.name, time.Since(start).Round(time.Millisecond), err)
	}
	if err != nil {
		w.Header().Set("X-Thriftserver-Error-Message", err.Error())
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "application/x-thrift")
	_, _ = w.Write(answer.encode())
}
