// Package terminaltest makes terminals for tests.
package terminaltest

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Open makes a terminal of so many columns, 0 when they are not known, which is
// closed after the test. See pty(7) and ioctl_tty(2).
func Open(t *testing.T, columns uint16) *os.File {
	t.Helper()
	_, terminal := Pair(t, columns)
	return terminal
}

// Pair is Open, with the side of the person as well: what is written to that are keys,
// and what is read from it is shown.
func Pair(t *testing.T, columns uint16) (person, terminal *os.File) {
	t.Helper()
	master := open(t, "/dev/ptmx")
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatalf("unlock the terminal: %v", err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatalf("ask for the terminal's number: %v", err)
	}
	terminal = open(t, fmt.Sprint("/dev/pts/", number))
	Resize(t, terminal, columns)
	return master, terminal
}

// Resize sets how wide a terminal is.
func Resize(t *testing.T, terminal *os.File, columns uint16) {
	t.Helper()
	if err := unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}); err != nil {
		t.Fatalf("set the terminal's width: %v", err)
	}
}

func open(t *testing.T, path string) *os.File {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatalf("open a terminal: %v", err)
	}
	t.Cleanup(func() { _ = file.Close() }) // nothing of it is kept
	return file
}
