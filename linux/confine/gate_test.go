package confine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestAwaitExec reads complete and truncated messages of gates.
func TestAwaitExec(t *testing.T) {
	for _, c := range []struct{ said, err string }{
		{`{"Began":5}`, ""},
		{`{"Began":5}` + "\n", ""},
		{"", "was ended"},
		{`{"Began":5}{"Be`, "was ended"},
		{`{"Began":`, "was ended"},
		{`{"Enter":"no such group"}`, "no such group"},
		{`{"Began":5}{"Exec":8}`, "not a program for this machine"},
		{`{"Began":5}{"Exec":2}`, "interpreter"},
		{`{"Began":5}{"Exec":13}`, "permission denied"},
	} {
		p := &child{}
		err := p.awaitExec(strings.NewReader(c.said), Spec{Path: "/bin/x"})
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q: %v, want %q", c.said, err, c.err)
		}
		if err == nil && p.began != 5 {
			t.Errorf("%q: began %v", c.said, p.began)
		}
	}
}

func TestLook(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	for name, mode := range map[string]os.FileMode{"runs": 0o755, "text": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if path, err := Look("runs"); err != nil || path != filepath.Join(dir, "runs") {
		t.Errorf("%q, %v", path, err)
	}
	for name, missing := range map[string]bool{
		"absent": true, filepath.Join(dir, "absent"): true, filepath.Join(dir, "text"): false, dir: false,
	} {
		_, err := Look(name)
		var start *StartError
		if !errors.As(err, &start) || start.Missing != missing {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHelper(t *testing.T) {
	for _, args := range [][]string{nil, {"run"}, {"run", gateWord, "1", "2", "3", "4"}} {
		if _, ok := Helper(args); ok {
			t.Errorf("%q is taken for a helper", args)
		}
	}
	for _, args := range [][]string{{gateWord}, {watcherWord, "x"}} {
		if status, ok := Helper(args); !ok || status != 1 {
			t.Errorf("%q: status %d, %t", args, status, ok)
		}
	}
}

func TestSplit(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range [][5]time.Duration{
		{100 * ms, 0, 0, 0, 0},
		{100 * ms, 30 * ms, 10 * ms, 75 * ms, 25 * ms},
		{100 * ms, 100 * ms, 0, 100 * ms, 0},
	} {
		if user, system := split(c[0], c[1], c[2]); user != c[3] || system != c[4] {
			t.Errorf("%v: %v, %v", c, user, system)
		}
	}
}
