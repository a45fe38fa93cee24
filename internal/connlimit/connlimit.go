// Package connlimit limits the connections of a server:
//
//	listener = connlimit.New(listener, 64, 50)
//
// When there are too many, a new connection replaces the oldest one, so clients that keep
// connections open cannot keep others out. A client that opens very many is refused them, so it can
// neither replace those of others all the time nor make the server compute handshakes.
package connlimit

import (
	"net"
	"slices"
	"sync"
	"time"
)

// New returns a listener of which at most n connections are open. It closes what an address opens
// beyond a number of connections per second at once; with 0 there is no such number.
func New(l net.Listener, n, perSecond int) net.Listener {
	return &listener{Listener: l, slots: make(chan struct{}, n), perSecond: perSecond}
}

type listener struct {
	net.Listener
	slots     chan struct{} // one for each connection that the server has not closed
	perSecond int

	// second is when counting began, and recent is how many connections each address has opened since.
	// Only Accept uses them.
	second time.Time
	recent map[string]int

	mu   sync.Mutex
	open []*conn // oldest first, without those that were replaced
}

// Accept implements [net.Listener]. It waits until the server has closed the connection that it
// replaces, or another one. It is not called concurrently.
func (l *listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	for err == nil && !l.admits(accepted.RemoteAddr(), time.Now()) {
		_ = accepted.Close()
		accepted, err = l.Listener.Accept()
	}
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

// admits reports whether an address may open one more connection now.
func (l *listener) admits(address net.Addr, now time.Time) bool {
	if now.Sub(l.second) >= time.Second {
		l.second, l.recent = now, map[string]int{}
	}
	host, _, _ := net.SplitHostPort(address.String())
	l.recent[host]++
	return l.perSecond == 0 || l.recent[host] <= l.perSecond
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
