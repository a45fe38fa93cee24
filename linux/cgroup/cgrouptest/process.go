package cgrouptest

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/test/must"
)

// processEnv makes a test binary the process that [Start] starts.
const processEnv = "PINFOLD_TEST_PROCESS"

// spins keeps the compiler from removing the loop.
var spins atomic.Uint64

// Main is TestMain of packages that use [Start]. Virtual machines of tests have no other programs.
func Main(m *testing.M) {
	switch os.Getenv(processEnv) {
	case "":
		os.Exit(m.Run())
	case "busy":
		go func() {
			for {
				spins.Add(1)
			}
		}()
	case "threads":
		for range 20 {
			go thread()
		}
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// thread runs on a thread of its own, which ends with it, and starts the next one.
func thread() {
	runtime.LockOSThread()
	time.Sleep(time.Millisecond)
	go thread()
}

// Start runs a process in a group, "busy", "asleep" or one whose "threads" end again and again, until
// the test ends, and returns its id.
func Start(t testing.TB, fs *cgroup.FS, group, what string, controllers ...cgroup.Controller) (pid int) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), processEnv+"="+what)
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	Move(t, fs, group, cmd.Process.Pid, controllers...)
	return cmd.Process.Pid
}

// Move moves a process to a group.
func Move(t testing.TB, fs *cgroup.FS, group string, pid int, controllers ...cgroup.Controller) {
	t.Helper()
	for _, c := range controllers {
		if fs.Hierarchy(c).Mount == "" {
			continue // version 2 has no cpuacct
		}
		must.Do(t, os.WriteFile(fs.Dir(c, group)+"/cgroup.procs", fmt.Append(nil, pid), 0))
	}
}
