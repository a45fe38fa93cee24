package sampler

import (
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"testing"

	"pinfold.dev/pinfold/linux/cgroup"
)

const spinEnv = "PINFOLD_TEST_SPIN"

// spins keeps the compiler from removing the loop.
var spins atomic.Uint64

// TestSpin is a busy process. It ends when its standard input ends.
func TestSpin(t *testing.T) {
	if os.Getenv(spinEnv) == "" {
		t.Skip("other tests run this one in a process of its own")
	}
	go func() {
		for {
			spins.Add(1)
		}
	}()
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// spinIn runs a busy process in a group until the test ends.
func spinIn(t *testing.T, fs *cgroup.FS, group string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestSpin$")
	cmd.Env = append(os.Environ(), spinEnv+"=1")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the busy process: %v", err)
		}
	})
	for _, c := range []cgroup.Controller{cgroup.CPU, cgroup.CPUAcct} {
		if fs.Hierarchy(c).Mount == "" {
			continue
		}
		if err := os.WriteFile(fs.Dir(c, group)+"/cgroup.procs", []byte(strconv.Itoa(cmd.Process.Pid)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
