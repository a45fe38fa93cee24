package agent

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"pinfold.dev/pinfold/test/must"
)

// TestConnections checks that one address can have some connections only, and others can still connect.
func TestConnections(t *testing.T) {
	inner := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	l := &boundedListener{Listener: inner, open: map[string]int{}}
	defer l.Close()
	accepted := make(chan net.Conn, 2*connectionsOfOne)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- conn
		}
	}()
	dial := func(from string) net.Conn {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 10 * time.Second}
		return must.Get(dialer.DialContext(t.Context(), "tcp", inner.Addr().String()))(t)
	}
	refused := func(conn net.Conn) bool {
		must.Do(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
		_, err := conn.Read(make([]byte, 1))
		return errors.Is(err, io.EOF)
	}
	for range connectionsOfOne {
		defer dial("127.0.0.1").Close()
	}
	first := <-accepted
	over := dial("127.0.0.1")
	defer over.Close()
	if !refused(over) {
		t.Error("an address has too many connections")
	}
	defer dial("127.0.0.2").Close()
	for range connectionsOfOne { // the rest, and that of the other address
		<-accepted
	}
	must.Do(t, first.Close())
	_ = first.Close() // counts once
	defer dial("127.0.0.1").Close()
	<-accepted
	over = dial("127.0.0.1")
	defer over.Close()
	if !refused(over) {
		t.Error("a connection that was closed twice counts twice")
	}
}
