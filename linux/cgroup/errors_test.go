package cgroup

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/test/must"
)

// TestIsGone: a process ends before a file of it is opened, and between open and read.
func TestIsGone(t *testing.T) {
	process := exec.Command("/proc/self/exe", "-test.run=^$")
	must.Do(t, process.Start())
	name := fmt.Sprintf("/proc/%d/status", process.Process.Pid)
	open := must.Get(os.Open(name))(t)
	defer open.Close()
	must.Do(t, process.Wait())
	_, read := open.Read(make([]byte, 1))
	_, opened := os.ReadFile(name)
	for _, err := range []error{read, opened, fmt.Errorf("group: %w", ErrGone), unix.ENODEV} {
		if !IsGone(err) {
			t.Errorf("%v does not mean that it has gone", err)
		}
	}
	for _, err := range []error{nil, unix.EACCES, errors.New("other")} {
		if IsGone(err) {
			t.Errorf("%v means that it has gone", err)
		}
	}
}
