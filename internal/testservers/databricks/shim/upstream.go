package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"sync"
)

// upstream is Spark's Thrift server in its binary mode, which unlike its HTTP mode listens where it is told to. Messages follow
// each other on a connection without frames. A session ends with the connection that opened it, so each has one of its own,
// which carries nothing else; the calls take turns on the others.
type upstream struct {
	address string

	mu       sync.Mutex
	idle     []*connection
	sessions map[string]*connection // by the session's GUID
}

type connection struct {
	net.Conn
	r *bufio.Reader
}

func newUpstream(address string) *upstream {
	return &upstream{address: address, sessions: map[string]*connection{}}
}

// send carries a message there and the answer back.
func (u *upstream) send(ctx context.Context, m *message) (*message, error) {
	c, err := u.connection(ctx, m.name == "OpenSession")
	if err != nil {
		return nil, err
	}
	answer, err := c.exchange(ctx, m)
	if err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("%s: %w", m.name, err)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	switch m.name {
	case "OpenSession":
		if id := answer.body.text(0, 3, 1, 1); id != "" {
			u.sessions[id] = c
			return answer, nil
		}
	case "CloseSession":
		id := m.body.text(1, 1, 1, 1)
		if own := u.sessions[id]; own != nil {
			_ = own.Close()
			delete(u.sessions, id)
		}
	}
	u.idle = append(u.idle, c)
	return answer, nil
}

func (u *upstream) connection(ctx context.Context, fresh bool) (*connection, error) {
	u.mu.Lock()
	if n := len(u.idle); n > 0 && !fresh {
		c := u.idle[n-1]
		u.idle = u.idle[:n-1]
		u.mu.Unlock()
		return c, nil
	}
	u.mu.Unlock()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", u.address)
	if err != nil {
		return nil, err
	}
	return &connection{Conn: c, r: bufio.NewReaderSize(c, 64<<10)}, nil
}

// exchange ends with its context. The connection is of no use after an error.
func (c *connection) exchange(ctx context.Context, m *message) (*message, error) {
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	answer, err := c.ask(m)
	if !stop() {
		return nil, ctx.Err()
	}
	return answer, err
}

func (c *connection) ask(m *message) (*message, error) {
	if _, err := c.Write(m.encode()); err != nil {
		return nil, err
	}
	return readMessage(c.r)
}

// call makes a call of the shim's own and returns the answer's struct.
func (u *upstream) call(ctx context.Context, name string, request *tree) (*tree, error) {
	m, err := u.send(ctx, &message{kind: msgCall, name: name, body: st(tStruct, 1, request)})
	if err != nil {
		return nil, err
	}
	if answer := m.body.sub(0); m.kind == msgReply && answer != nil {
		return answer, nil
	}
	return nil, fmt.Errorf("%s: %s", name, m.body.text(1))
}
