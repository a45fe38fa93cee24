package connlimit_test

import (
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"pinfold.dev/pinfold/internal/connlimit"
	"pinfold.dev/pinfold/test/must"
)

// TestOldestIsReplaced opens connections that are kept open. The last one is served, once the
// server has closed the oldest.
func TestOldestIsReplaced(t *testing.T) {
	l := connlimit.New(must.Get(net.Listen("tcp", "127.0.0.1:0"))(t), 2)
	defer l.Close()
	dial := func() net.Conn {
		c := must.Get(net.Dial("tcp", l.Addr().String()))(t)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	receives := func(client, server net.Conn) {
		t.Helper()
		_ = must.Get(client.Write([]byte("x")))(t)
		if n, err := server.Read(make([]byte, 1)); n != 1 {
			t.Errorf("the server reads %d bytes: %v", n, err)
		}
	}
	dial()
	oldest := must.Get(l.Accept())(t)
	second := dial()
	kept := must.Get(l.Accept())(t)

	var freed atomic.Bool
	newest := dial()
	accepted := make(chan net.Conn)
	go func() {
		c, err := l.Accept()
		if err != nil || !freed.Load() {
			t.Errorf("a third connection beside two: %v", err)
		}
		accepted <- c
	}()
	if _, err := oldest.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("reading the oldest connection: %v", err)
	}
	receives(second, kept)
	freed.Store(true)
	for range 2 { // a second time has no effect
		_ = oldest.Close()
	}
	last := <-accepted
	receives(newest, last)

	_ = kept.Close()
	third := dial()
	receives(third, must.Get(l.Accept())(t))
	receives(newest, last) // was not replaced
}
