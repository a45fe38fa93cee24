package agent

import (
	"net"
	"sync"
)

// connectionsOfOne is how many connections one address may have to the agent: a pod must not be able to
// use up its memory. The kubelet's probes and Prometheus have a few each.
const connectionsOfOne = 16

// boundedListener closes connections of addresses that have too many.
type boundedListener struct {
	net.Listener
	mu   sync.Mutex
	open map[string]int // by address
}

// Accept returns the next connection of an address that does not have too many.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		host, _, err := net.SplitHostPort(conn.RemoteAddr().String())
		if err == nil && l.add(host) {
			return &boundedConn{Conn: conn, closed: func() { l.remove(host) }}, nil
		}
		_ = conn.Close() // nothing was said yet
	}
}

func (l *boundedListener) add(host string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[host] == connectionsOfOne {
		return false
	}
	l.open[host]++
	return true
}

func (l *boundedListener) remove(host string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[host]--; l.open[host] == 0 {
		delete(l.open, host)
	}
}

type boundedConn struct {
	net.Conn
	once   sync.Once
	closed func()
}

// Close closes the connection.
func (c *boundedConn) Close() error {
	c.once.Do(c.closed)
	return c.Conn.Close()
}
