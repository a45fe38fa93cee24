//go:build linux

package top

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/report/terminal"
	"pinfold.dev/pinfold/report/terminal/terminaltest"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/wait"
)

// person presses keys of a terminal and waits for what it shows.
type person struct {
	t     *testing.T
	side  io.Writer // where the keys go
	shown chan string
	seen  string
}

func newPerson(t *testing.T, side io.Writer, screen io.Reader) *person {
	p := &person{t: t, side: side, shown: make(chan string, 100)}
	go func() {
		var buffer [4096]byte
		for {
			n, err := screen.Read(buffer[:])
			if err != nil {
				return // closed after the test
			}
			p.shown <- string(buffer[:n])
		}
	}()
	return p
}

// waitFor waits until what was shown since the last call satisfies a condition.
func (p *person) waitFor(what string, seen func(string) bool) {
	p.t.Helper()
	wait.Until(p.t, what, func() error {
		for len(p.shown) > 0 {
			p.seen += <-p.shown
		}
		if seen(p.seen) {
			return nil
		}
		return fmt.Errorf("the terminal shows %q", p.seen[max(0, len(p.seen)-2000):])
	})
	p.seen = ""
}

func (p *person) press(keys string) {
	p.t.Helper()
	must.Get(io.WriteString(p.side, keys))(p.t)
}

// TestTopOnTerminal sorts, makes the terminal narrow, and ends by a key or a signal. The terminal's
// settings are restored.
func TestTopOnTerminal(t *testing.T) {
	root := idleNode(t)
	for name, end := range map[string]func(*person){
		"q":      func(p *person) { p.press("q") },
		"ctrl-C": func(p *person) { p.press("\x03") },
		"SIGTERM": func(p *person) {
			must.Do(p.t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
		},
	} {
		t.Run(name, func(t *testing.T) {
			side, tty := terminaltest.Pair(t, 100)
			before := settings(t, tty)
			p := newPerson(t, side, side)
			ended := make(chan error, 1)
			go func() {
				cmd := New()
				cmd.SetArgs([]string{"--host-root", root, "/a"})
				cmd.SetIn(tty)
				cmd.SetOut(tty)
				cmd.SetErr(io.Discard)
				ended <- cmd.ExecuteContext(context.Background())
			}()
			p.waitFor("the table", func(s string) bool { return strings.Contains(s, "THR/TIMER") && strings.Contains(s, clearLine+"/a ") })
			p.press("s")
			p.waitFor("another order", func(s string) bool { return strings.Contains(s, "[s share]") })
			terminaltest.Resize(t, tty, 40)
			p.waitFor("a narrow table", func(s string) bool { return widest(s) == 40 })
			end(p)
			p.waitFor("the end", func(s string) bool { return strings.HasSuffix(s, terminal.LeaveScreen) })
			if err := <-ended; err != nil {
				t.Errorf("error %v, want none", err)
			}
			if diff := cmp.Diff(before, settings(t, tty)); diff != "" {
				t.Errorf("the terminal is not as before: -before +after:\n%s", diff)
			}
		})
	}
}

// TestTopElsewhere draws for a terminal elsewhere, which sends keys and its sizes. The end of these
// ends the command.
func TestTopElsewhere(t *testing.T) {
	root := idleNode(t)
	keys, pressed := io.Pipe()
	side, screen := io.Pipe()
	p := newPerson(t, pressed, side)
	ended := make(chan error, 1)
	go func() {
		cmd := New()
		cmd.SetArgs([]string{"--host-root", root, "--remote", "--screen=100x24", "/a"})
		cmd.SetIn(keys)
		cmd.SetOut(screen)
		cmd.SetErr(io.Discard)
		ended <- cmd.ExecuteContext(context.Background())
	}()
	p.waitFor("the table", func(s string) bool {
		return widest(s) == 100 && strings.Contains(s, clearLine+"/a ") && !strings.Contains(s, "\x1b[7m")
	})
	for keys, seen := range map[string]func(string) bool{
		"s":             func(s string) bool { return strings.Contains(s, "[s share]") },
		"\x1b[8;10;60t": func(s string) bool { return widest(s) == 60 },
	} {
		p.press(keys)
		p.waitFor(keys, seen)
	}
	_ = pressed.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// idleNode is a machine with a control group /a of ordinary files.
func idleNode(t *testing.T) (root string) {
	root = t.TempDir()
	for name, content := range map[string]string{
		"proc/self/mountinfo":                "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
		"sys/fs/cgroup/cgroup.controllers":   "cpuset cpu\n",
		"sys/fs/cgroup/cgroup.procs":         "",
		"sys/fs/cgroup/a/cpu.stat":           "usage_usec 1000\nnr_periods 10\nnr_throttled 1\n",
		"sys/fs/cgroup/a/cpu.max":            "50000 100000\n",
		"sys/fs/cgroup/a/cpu.max.burst":      "0\n",
		"sys/fs/cgroup/a/cgroup.controllers": "cpu\n",
	} {
		file := filepath.Join(root, name)
		must.Do(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must.Do(t, os.WriteFile(file, []byte(content), 0o600))
	}
	return root
}

func settings(t *testing.T, tty *os.File) *unix.Termios {
	t.Helper()
	return must.Get(unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS))(t)
}

// widest returns the width of the longest line of the last complete drawing, 0 without one.
func widest(shown string) (width int) {
	frames := strings.Split(shown, toTopLeft)
	if len(frames) < 3 {
		return 0
	}
	plain := regexp.MustCompile(`\x1b\[[?0-9]*[a-zA-Z]`).ReplaceAllString(frames[len(frames)-2], "")
	for line := range strings.SplitSeq(plain, "\r\n") {
		width = max(width, utf8.RuneCountInString(line))
	}
	return width
}
