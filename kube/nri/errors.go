package nri

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// Why there is no connection to the runtime. None of them ends Run.
var (
	// ErrNoSocket: NRI is off, or no runtime has run since the node booted.
	ErrNoSocket = errors.New("no NRI socket")
	// ErrNotListening: the runtime is down, or was restarted with NRI off.
	ErrNotListening = errors.New("nobody listens on the NRI socket")
	// ErrNotAllowed: this process may not open the socket.
	ErrNotAllowed = errors.New("the NRI socket may not be opened")
	// ErrRefused: the runtime is there and does not want the plugin.
	ErrRefused = errors.New("the runtime refused the NRI plugin")
	// ErrWaiting: the runtime has accepted the plugin and not synchronised yet.
	ErrWaiting = errors.New("the runtime has not synchronised yet")
	// ErrLost: the connection was there and ended.
	ErrLost = errors.New("the connection to the runtime ended")
)

// explainDial says what to do about a socket that cannot be dialled.
func explainDial(socket string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w at %s: the runtime is down or has NRI off; to switch it on: containerd 1.7 and later have disable = false under"+
			" [plugins.'io.containerd.nri.v1.nri'] (2.0 and later by default; older than 1.7 has no NRI),"+
			" CRI-O enable_nri = true under [crio.nri]; in a pod, mount the socket's directory from the host", ErrNoSocket, socket)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w %s: the runtime is down or was restarted with NRI off; look at its log and configuration",
			ErrNotListening, socket)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: %s: run as root and, with SELinux, as a privileged container", ErrNotAllowed, socket)
	}
	return fmt.Errorf("%w: dial %s: %w", ErrNotListening, socket, err)
}

// explainRegister says what to do about a registration that failed.
func (o Options) explainRegister(err error) error {
	return fmt.Errorf("%w %s-%s: %w: see the runtime's log; if another plugin has this name and index (a second agent on this node?),"+
		" end it or give one of them another", ErrRefused, o.Index, o.Name, err)
}
