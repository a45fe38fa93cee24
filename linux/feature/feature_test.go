package feature

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"pinfold.dev/pinfold/test/must"
)

// TestMissing tests a feature whose file does not exist, and which is asked for once.
func TestMissing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	f := &Feature{Name: "sched_x", Since: "6.12", Also: "built with CONFIG_X", files: []string{os.DevNull, file}}
	err := f.Test()
	var missing *UnsupportedError
	if !errors.As(err, &missing) || missing.Feature != f || !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%v, want an UnsupportedError of the feature", err)
	}
	want := "the kernel has no sched_x: use Linux 6.12 or newer, built with CONFIG_X (stat " + file + ": no such file or directory)"
	if err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
	must.Do(t, os.WriteFile(file, nil, 0o600))
	if again := f.Test(); again != err { //nolint:errorlint // the same value is wanted
		t.Errorf("the second time %v, want the result of the first", again)
	}
	if err := (&Feature{files: []string{file}}).Test(); err != nil {
		t.Errorf("a feature whose file exists: %v", err)
	}
}

// TestSwitchedOff: a file of run delays exists, and has zeros, where the kernel does not count them.
func TestSwitchedOff(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "proc/self/schedstat")
	must.Do(t, os.MkdirAll(filepath.Dir(file), 0o755))
	must.Do(t, os.WriteFile(file, []byte("0 0 0\n"), 0o600))
	const want = "/proc/ID/schedstat is switched off: write 1 to /proc/sys/kernel/task_delayacct, or boot with delayacct"
	if err := RunDelays.test(root); !errors.Is(err, errors.ErrUnsupported) || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	must.Do(t, os.WriteFile(file, []byte("1 0 1\n"), 0o600))
	if err := RunDelays.test(root); err != nil {
		t.Error(err)
	}
}

func TestUnsupportedError(t *testing.T) {
	for want, err := range map[string]*UnsupportedError{
		"the kernel has no cpu.max.burst: use Linux 5.14 or newer":                {Feature: Burst, What: "the kernel has no cpu.max.burst"},
		"the kernel has no cpu.bvt_warp_ns: use Alibaba Cloud Linux or Anolis OS": {Feature: GroupIdentity},
		"cannot trace the scheduler: run as root":                                 {Feature: Tracing, What: "cannot trace the scheduler", Do: "run as root"},
		"the kernel has no cpu.stat: it was built without it":                     {What: "the kernel has no cpu.stat", Do: "it was built without it"},
	} {
		if err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	}
}
