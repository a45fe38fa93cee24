// Package terminaltest provides pseudo-terminals for tests.
package terminaltest

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Open opens a terminal with a number of columns, 0 if unknown, and closes it after the test. See
// pty(7) and ioctl_tty(2).
func Open(t *testing.T, columns uint16) *os.File {
	t.Helper()
	_, terminal := Pair(t, columns)
	return terminal
}

// Pair is like Open and also returns the other side: writing to person presses keys, reading from
// it returns what the terminal shows.
func Pair(t *testing.T, columns uint16) (person, terminal *os.File) {
	t.Helper()
	person, terminal, err := New()
	if err != nil {
		t.Fatalf("make a terminal: %v", err)
	}
	t.Cleanup(func() { _, _ = person.Close(), terminal.Close() }) // errors do not matter after the test
	Resize(t, terminal, columns)
	return person, terminal
}

// New is like Pair for programs: the width is unknown, and the caller closes both sides.
func New() (person, terminal *os.File, err error) {
	if person, err = open("/dev/ptmx"); err != nil {
		return nil, nil, err
	}
	fd := int(person.Fd())
	err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0) // unlock it
	number, errNumber := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err = errors.Join(err, errNumber); err == nil {
		terminal, err = open(fmt.Sprint("/dev/pts/", number))
	}
	if err != nil {
		person.Close()
		return nil, nil, err
	}
	return person, terminal, nil
}

func open(path string) (*os.File, error) { return os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0) }

// Resize sets the width of a terminal.
func Resize(t *testing.T, terminal *os.File, columns uint16) {
	t.Helper()
	if err := unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}); err != nil {
		t.Fatalf("set the terminal's width: %v", err)
	}
}
