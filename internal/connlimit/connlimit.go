// Package connlimit limits the connections of a server:
//
//	listener = connlimit.New(listener, 64)
//
// When there are too many, a new connection replaces the oldest one, so clients that keep
// connections open cannot keep others out.
package connlimit

import (
	"net"
	"slices"
	"sync"
)

// New returns a listener of which at most n connections are open.
func New(l net.Listener, n int) net.Listener {
	return &listener{Listener: l, slots: make(chan struct{}, n)}
}

type listener struct {
	net.Listener
	slots chan struct{} // one for each connection that the server has not closed

	mu   sync.Mutex
	open []*conn // oldest first, without those that were replaced
}

// Accept implements [net.Listener]. It waits until the server has closed the connection that it
// replaces, or another one.
func (l *listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: accepted, listener: l}
	l.mu.Lock()
	if len(l.open) == cap(l.slots) {
		_ = l.open[0].Conn.Close() // the server notices when it reads or writes
		l.open = slices.Delete(l.open, 0, 1)
	}
	l.open = append(l.open, c)
	l.mu.Unlock()
	l.slots <- struct{}{}
	return c, nil
}

type conn struct {
	net.Conn
	listener *listener
	once     sync.Once
}

// Close implements [net.Conn].
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() {
		l := c.listener
		l.mu.Lock()
		l.open = slices.DeleteFunc(l.open, func(other *conn) bool { return other == c })
		l.mu.Unlock()
		<-l.slots
	})
	return err
}
