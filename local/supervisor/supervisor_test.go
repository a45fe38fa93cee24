package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"pinfold.dev/pinfold/local/supervisor"
	"pinfold.dev/pinfold/test/wait"
)

// The test binary is also the children: the value of this variable selects what it does instead of
// running the tests.
const roleVariable = "PINFOLD_SUPERVISOR_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "serve": // makes the file that the probe looks for
		must(os.WriteFile(os.Args[1], nil, 0o600))
		time.Sleep(time.Hour)
	case "fail":
		fmt.Fprintln(os.Stderr, "cannot go on: no cheese left")
		os.Exit(3)
	case "parent": // a supervisor with one child, to be killed
		s := supervisor.New(supervisor.Options{})
		child := s.Start(serveSpec("child", "serve", os.Args[1]))
		must(child.WaitReady(context.Background()))
		fmt.Println(child.Status().PID)
		time.Sleep(time.Hour)
	}
	os.Exit(m.Run())
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// serveSpec runs this binary in a role. It is ready when the mark file exists.
func serveSpec(name, role, dir string) supervisor.Spec {
	executable, err := os.Executable()
	must(err)
	mark := filepath.Join(dir, name+".mark")
	return supervisor.Spec{
		Name: name, Path: executable, Args: []string{mark}, Dir: dir,
		Env: append(os.Environ(), roleVariable+"="+role),
		Log: filepath.Join(dir, name+".log"),
		Ready: func(context.Context) error {
			_, err := os.Stat(mark)
			return err
		},
	}
}

func quick() supervisor.Options {
	return supervisor.Options{Pause: time.Millisecond, MaxFailures: 3}
}

func TestRestartsAChildThatWasKilled(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	s := supervisor.New(quick())
	defer s.Close()
	child := s.Start(serveSpec("server", "serve", dir))
	if err := child.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	// More often than MaxFailures: an exit after readiness does not count as a failure.
	for kill := 1; kill <= 5; kill++ {
		old := child.Status().PID
		must(os.Remove(filepath.Join(dir, "server.mark")))
		must(syscall.Kill(old, syscall.SIGKILL))
		wait.True(t, "the child is ready again", func() bool {
			status := child.Status()
			return status.State == supervisor.Ready && status.PID != old && status.Restarts == kill
		})
	}
}

func TestGivesUpWithTheReason(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	s := supervisor.New(quick())
	defer s.Close()
	child := s.Start(serveSpec("mouse", "fail", dir))
	err := child.WaitReady(ctx)
	if err == nil {
		t.Fatal("a child that always fails became ready")
	}
	for _, want := range []string{"mouse failed 3 times in a row", "exit status 3", "no cheese left", "mouse.log"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
	if failed := <-s.Failed(); failed.Error() != err.Error() {
		t.Errorf("Failed delivers %v, WaitReady said %v", failed, err)
	}
	if state := child.Status().State; state != supervisor.GaveUp {
		t.Errorf("state %q after giving up", state)
	}
}

// TestCountsFailuresAfterReadiness: the exit of a child that was ready is not one of the failures in a row.
func TestCountsFailuresAfterReadiness(t *testing.T) {
	dir := t.TempDir()
	s := supervisor.New(quick())
	defer s.Close()
	child := s.Start(serveSpec("server", "serve", dir))
	must(child.WaitReady(t.Context()))
	must(os.RemoveAll(dir)) // so that it cannot start again
	must(syscall.Kill(child.Status().PID, syscall.SIGKILL))
	if failed := <-s.Failed(); !strings.Contains(failed.Error(), "server failed 3 times in a row") || child.Status().Restarts != 3 {
		t.Errorf("%v, after %d restarts", failed, child.Status().Restarts)
	}
}

func TestStopAndStartAgain(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	s := supervisor.New(quick())
	defer s.Close()
	first, other := s.Start(serveSpec("server", "serve", dir)), s.Start(serveSpec("other", "serve", dir))
	must(errors.Join(first.WaitReady(ctx), other.WaitReady(ctx)))
	pid := first.Status().PID
	first.Stop()
	if status := first.Status(); alive(pid) || status.State != supervisor.Stopped || status.PID != 0 {
		t.Errorf("status after Stop: %+v, process %d runs: %v", status, pid, alive(pid))
	}
	must(s.Start(first.Spec()).WaitReady(ctx))
	var got []string
	for _, status := range s.Snapshot() {
		got = append(got, fmt.Sprintf("%s %s", status.Name, status.State))
	}
	if want := []string{"server ready", "other ready"}; !slices.Equal(got, want) {
		t.Errorf("the snapshot lists %q, want %q", got, want)
	}
}

func TestCanceledWaitIsNotReportedAsAFailure(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := supervisor.New(quick())
	defer s.Close()
	spec := serveSpec("slow", "serve", t.TempDir())
	spec.Ready = func(context.Context) error { return errors.New("not yet") }
	child := s.Start(spec)
	cancel()
	if err := child.WaitReady(ctx); !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "log") {
		t.Errorf("WaitReady = %v, want the bare cancellation", err)
	}
}

func TestNothingOutlivesAKilledSupervisor(t *testing.T) {
	dir := t.TempDir()
	executable, err := os.Executable()
	must(err)
	parent := exec.CommandContext(t.Context(), executable, dir)
	parent.Env = append(os.Environ(), roleVariable+"=parent")
	parent.Stderr = os.Stderr
	out, err := parent.StdoutPipe()
	must(err)
	must(parent.Start())
	buffer := make([]byte, 32)
	n, err := out.Read(buffer)
	must(err)
	child, err := strconv.Atoi(strings.TrimSpace(string(buffer[:n])))
	must(err)
	if !alive(child) {
		t.Fatalf("child %d does not run", child)
	}
	must(parent.Process.Kill())
	_ = parent.Wait() // killed, as intended
	wait.True(t, "the child has ended", func() bool { return !alive(child) })
}

// alive reports whether a process exists and is more than a zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}
