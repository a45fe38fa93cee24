package confine

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestKeyboard checks that ctrl-C on a terminal reaches the command once, although both the run and
// the command get it. Without a terminal, testSignals checks that kill -INT of the run reaches it.
func TestKeyboard(t *testing.T) {
	machine(t)
	master, slave := terminal(t)
	cmd := starting(t, order{Do: []string{"count"}})
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	begin(t, cmd)
	slave.Close()
	seen := bufio.NewReader(master)
	until := func(word string) (all string) {
		for !strings.Contains(all, word) {
			line, err := seen.ReadString('\n')
			all += line
			if err != nil {
				t.Fatalf("%v after %q, want %s", err, all, word)
			}
		}
		return all
	}
	until("ready")
	if _, err := master.WriteString("\x03"); err != nil {
		t.Fatal(err)
	}
	out := until("SIGINT")
	// A second SIGINT would arrive before this signal.
	if err := cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	out += until("SIGUSR1")
	if n := strings.Count(out, "SIGINT"); n != 1 {
		t.Errorf("ctrl-C has reached the command %d times:\n%s", n, out)
	}
	terminate(t, cmd)
}

// terminal returns the two ends of a pseudo-terminal.
func terminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}
