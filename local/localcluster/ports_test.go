package localcluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/test/must"
)

// shared binds a port as --permit-port-sharing does.
var shared = net.ListenConfig{Control: func(_, _ string, conn syscall.RawConn) error {
	var err error
	controlErr := conn.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	})
	return errors.Join(err, controlErr)
}}

func TestReservedPort(t *testing.T) {
	port := must.Get(ReservePort())(t)
	defer port.Release()
	address := fmt.Sprintf("127.0.0.1:%d", port.Number)

	if listener, err := net.Listen("tcp", address); err == nil {
		listener.Close()
		t.Error("a program without SO_REUSEPORT can listen on the port")
	}
	if conn, err := net.Dial("tcp", address); err == nil {
		conn.Close()
		t.Error("the port accepts connections without a listener")
	}
	for range 2 { // a component, and again after its restart
		checkServes(t, address)
	}
}

func checkServes(t *testing.T, address string) {
	t.Helper()
	listener, err := shared.Listen(context.Background(), "tcp", address)
	if err != nil {
		t.Fatalf("the component cannot listen: %v", err)
	}
	defer listener.Close()
	accepted := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			conn.Close()
		}
		accepted <- err
	}()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatalf("the component cannot be reached: %v", err)
	}
	conn.Close()
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
}

func TestReservedPortsDiffer(t *testing.T) {
	seen := map[int]bool{}
	for range 500 {
		port := must.Get(ReservePort())(t)
		defer port.Release()
		if seen[port.Number] {
			t.Fatalf("port %d was reserved twice", port.Number)
		}
		seen[port.Number] = true
	}
}
