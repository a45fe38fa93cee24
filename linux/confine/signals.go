package confine

import (
	"errors"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// signals are those that this process receives in place of the command.
type signals struct{ c chan os.Signal }

// catch begins to catch signals, those excepted that whoever started this process has
// it ignore (nohup): the command ignores them, too.
func catch() *signals {
	s := &signals{make(chan os.Signal, 16)}
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2} {
		if !signal.Ignored(sig) {
			signal.Notify(s.c, sig)
		}
	}
	return s
}

func (s *signals) release() { signal.Stop(s.c) }

// pending returns a signal that has come already; nil when none has.
func (s *signals) pending() os.Signal {
	select {
	case sig := <-s.c:
		return sig
	default:
		return nil
	}
}

// forward passes signals on until done is closed.
func (s *signals) forward(done <-chan struct{}, send func(syscall.Signal)) {
	for {
		select {
		case <-done:
			return
		case sig := <-s.c:
			if !fromKeyboard(sig) {
				send(sig.(syscall.Signal))
			}
		}
	}
}

// fromKeyboard reports whether a signal was probably typed: then the terminal has sent
// it to the whole process group, of which the command is, and twice would be too often
// for programs that give up at the second one. Go does not say who sent a signal, so
// it is judged by whether the group is the one that the keyboard is connected to.
func fromKeyboard(sig os.Signal) bool {
	if sig != syscall.SIGINT && sig != syscall.SIGQUIT {
		return false
	}
	terminal, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer terminal.Close()
	for {
		group, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPGRP)
		if !errors.Is(err, unix.EINTR) {
			return err == nil && group == unix.Getpgrp()
		}
	}
}
