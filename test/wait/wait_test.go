package wait

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
)

// noTest records how a wait would end a test.
type noTest struct{ ended string }

func (*noTest) Helper() {}

func (n *noTest) Fatalf(format string, args ...any) { n.ended = fmt.Sprintf(format, args...) }

func TestUntil(t *testing.T) {
	tests := []struct {
		name     string
		look     func(n int) error
		progress func(n int) string
		looks    int
		ended    string // a part of the message
	}{
		{name: "at once", look: func(int) error { return nil }, looks: 1},
		{name: "slow but going on", looks: 3*patience + 1, look: func(n int) error {
			if n > 3*patience {
				return nil
			}
			return fmt.Errorf("%d of 4 pods", n/patience)
		}},
		{name: "a busy process", looks: 2*patience + 1, progress: func(n int) string { return fmt.Sprint(n / 100) }, look: func(n int) error {
			if n > 2*patience {
				return nil
			}
			return errors.New("not ready")
		}},
		{name: "no progress", looks: patience + 1, look: func(int) error { return errors.New("6 pods") }, ended: "all pods: no progress in 2400 of 2401 looks"},
		{name: "never", looks: most, look: func(n int) error { return fmt.Errorf("try %d", n) }, ended: "try 24000"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got, n := &noTest{}, 0
				var progress []Progress
				if test.progress != nil {
					progress = append(progress, func() string { return test.progress(n) })
				}
				Until(got, "all pods", func() error { n++; return test.look(n) }, progress...)
				if n != test.looks {
					t.Errorf("%d looks, want %d", n, test.looks)
				}
				if (got.ended == "") != (test.ended == "") || !strings.Contains(got.ended, test.ended) {
					t.Errorf("ended with %q, want %q", got.ended, test.ended)
				}
			})
		})
	}
}

func TestCPUTime(t *testing.T) {
	time := CPUTime(os.Getpid())
	first := time()
	True(t, "CPU time of this process", func() bool {
		for range 1000000 {
			_ = strings.Repeat("x", 10)
		}
		return time() != first
	})
	if got := CPUTime(1 << 30)(); got != "" {
		t.Errorf("CPU time of no process: %q", got)
	}
}
