package localcluster

import (
	"errors"
	"fmt"
	"net"
	"testing"

	"pinfold.dev/pinfold/test/must"
)

func TestReservedPort(t *testing.T) {
	port := must.Get(ReservePort())(t)
	defer port.Release()
	address, shared := fmt.Sprintf("127.0.0.1:%d", port.Number), net.ListenConfig{Control: SharePort}

	if listener, err := net.Listen("tcp", address); err == nil {
		listener.Close()
		t.Error("a program without SO_REUSEPORT can listen on the port")
	}
	if conn, err := net.Dial("tcp", address); err == nil {
		conn.Close()
		t.Error("the port accepts connections without a listener")
	}
	for range 2 { // a component, and again after its restart
		listener := must.Get(shared.Listen(t.Context(), "tcp", address))(t)
		conn := must.Get(net.Dial("tcp", address))(t)
		must.Do(t, errors.Join(second(listener.Accept()), conn.Close(), listener.Close()))
	}
}
