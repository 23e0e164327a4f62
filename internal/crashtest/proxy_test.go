package crashtest

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// fate is what happens to a COMMIT on its way.
type fate int

const (
	replyLost  fate = iota // the server commits, its answer is lost
	neverSent              // the server sees the connection end instead
	comesLate              // the program sees the connection end, the server gets the COMMIT later
	staysAlone             // the program sees the connection end, the server sees that later
)

// proxy stands between the program and PostgreSQL. The first COMMIT that comes meets its fate, everything else passes.
type proxy struct {
	fate     fate
	listener net.Listener
	server   string
	met      atomic.Bool
	late     chan struct{} // closed by deliver
	deliver  func()        // lets what is late go on
	links    sync.WaitGroup
}

// startProxy returns a proxy for the server of a database, and the address of the database through it.
func startProxy(t *testing.T, f fate, database string) (*proxy, string) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{fate: f, listener: listener, server: u.Host, late: make(chan struct{})}
	p.deliver = sync.OnceFunc(func() { close(p.late) })
	p.links.Go(p.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		p.deliver()
		p.links.Wait()
	})
	u.Host = listener.Addr().String()
	u.RawQuery = "sslmode=disable" // its messages have to be readable
	return p, u.String()
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		l := &link{proxy: p, client: client, server: server}
		p.links.Go(l.requests)
		p.links.Go(l.replies)
	}
}

// link is one connection of the program and the one to the server that belongs to it.
type link struct {
	*proxy
	client, server net.Conn
	dropReplies    atomic.Bool
}

func (l *link) end() {
	_ = l.client.Close()
	_ = l.server.Close()
}

// requests passes on what the program says. The first message of a connection has no type.
func (l *link) requests() {
	defer func() {
		if !l.dropReplies.Load() { // otherwise the server's reply is waited for
			l.end()
		}
	}()
	for header := 4; ; header = 5 {
		message, err := read(l.client, header)
		if err != nil {
			return
		}
		if header == 5 && commits(message) && l.met.CompareAndSwap(false, true) {
			l.meet(message)
			return
		}
		if _, err := l.server.Write(message); err != nil {
			return
		}
	}
}

// meet does to a COMMIT what its fate is.
func (l *link) meet(commit []byte) {
	switch l.fate {
	case replyLost:
		l.dropReplies.Store(true)
		_, _ = l.server.Write(l.rest(commit))
	case comesLate:
		rest := l.rest(commit)
		_ = l.client.Close()
		<-l.late
		l.dropReplies.Store(true)
		_, _ = l.server.Write(rest)
	case staysAlone:
		_ = l.client.Close()
		<-l.late
	}
}

// rest is the COMMIT with the messages that belong to it, up to the Sync; a simple query is alone.
func (l *link) rest(commit []byte) []byte {
	for message := commit; message[0] != 'Q' && message[0] != 'S'; {
		var err error
		if message, err = read(l.client, 5); err != nil {
			return nil
		}
		commit = append(commit, message...)
	}
	return commit
}

// replies passes on what the server says, until its replies are to be dropped: then it waits until the server is ready
// again, which is after the COMMIT.
func (l *link) replies() {
	defer l.end()
	for {
		message, err := read(l.server, 5)
		if err != nil {
			return
		}
		if l.dropReplies.Load() {
			if message[0] == 'Z' {
				return
			}
			continue
		}
		if _, err := l.client.Write(message); err != nil {
			return
		}
	}
}

// read reads a message: its type where it has one, its length, which counts itself but not the type, its content.
func read(from io.Reader, header int) ([]byte, error) {
	message := make([]byte, header)
	if _, err := io.ReadFull(from, message); err != nil {
		return nil, err
	}
	length := int(binary.BigEndian.Uint32(message[header-4:]))
	message = append(message, make([]byte, max(0, length-4))...)
	_, err := io.ReadFull(from, message[header:])
	return message, err
}

// commits reports whether a message of the program is a COMMIT: as simple query, or as the Parse of an extended one.
func commits(message []byte) bool {
	body := message[5:]
	switch message[0] {
	case 'P': // behind the statement's name
		_, body, _ = bytes.Cut(body, []byte{0})
	case 'Q':
	default:
		return false
	}
	text, _, _ := bytes.Cut(body, []byte{0})
	if comment, statement, ok := bytes.Cut(text, []byte("*/")); ok && bytes.HasPrefix(comment, []byte("/*")) {
		text = statement
	}
	return strings.EqualFold(strings.TrimSpace(string(text)), "COMMIT")
}
