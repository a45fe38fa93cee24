package localcluster

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// ReservedPort is a free TCP port on 127.0.0.1 that stays reserved while the component that listens
// on it is restarted.
//
// The usual method, to bind port 0, note the number and close the socket, loses the port if another
// program gets it in between, and again at each restart. Here a socket stays bound to the port,
// with SO_REUSEPORT and without listening. The component binds the port as well, with the same
// option (--permit-port-sharing) and the same user id. As the only listener, it gets every
// connection. Programs without the option cannot bind the port, and the kernel gives a bound port
// neither to a program that asks for port 0 nor to an outgoing connection
// (net/ipv4/inet_connection_sock.c, inet_csk_find_open_port; inet_hashtables.c,
// __inet_hash_connect).
type ReservedPort struct {
	Number int
	socket *os.File
}

// ReservePort reserves a port until it is released.
func ReservePort() (*ReservedPort, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("reserve a port: %w", os.NewSyscallError("socket", err))
	}
	port := &ReservedPort{socket: os.NewFile(uintptr(fd), "reserved port")}
	if port.Number, err = bindShared(fd); err != nil {
		port.Release()
		return nil, fmt.Errorf("reserve a port: %w", err)
	}
	return port, nil
}

// bindShared binds the socket to a port that the kernel chooses.
func bindShared(fd int) (int, error) {
	if err := share(fd); err != nil {
		return 0, err
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, os.NewSyscallError("bind", err)
	}
	address, err := unix.Getsockname(fd)
	if err != nil {
		return 0, os.NewSyscallError("getsockname", err)
	}
	inet, ok := address.(*unix.SockaddrInet4)
	if !ok {
		return 0, fmt.Errorf("socket has an address of type %T", address)
	}
	return inet.Port, nil
}

// SharePort is a [net.ListenConfig.Control] with which a component can listen on a reserved port. In the
// components of Kubernetes, --permit-port-sharing is the same.
func SharePort(_, _ string, conn syscall.RawConn) error {
	var failed error
	err := conn.Control(func(fd uintptr) { failed = share(int(fd)) })
	return errors.Join(err, failed)
}

func share(fd int) error {
	return os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
}

// Release gives the port back.
func (p *ReservedPort) Release() { _ = p.socket.Close() } // nothing was written
