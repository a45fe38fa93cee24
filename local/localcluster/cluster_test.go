package localcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/wait"
)

// The test binary is also a multi-call executable whose components all fail, or hang if the name of
// the data directory ends in "hang". With the argument "supervise" it runs a cluster, to be killed.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "supervise" {
		_, err := Start(context.Background(), Config{Executable: os.Args[0], Dir: os.Args[2]})
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if len(os.Args) > 1 && os.Args[1] == "component" {
		if dir, err := os.Getwd(); err == nil && strings.HasSuffix(dir, "hang") {
			time.Sleep(time.Hour)
		}
		fmt.Fprintf(os.Stderr, "%s: the disk is made of cheese\n", os.Args[2])
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func testConfig(t *testing.T, dir string) Config {
	t.Helper()
	executable := must.Get(os.Executable())(t)
	return Config{Executable: executable, Dir: dir}
}

// TestKilledSupervisor kills a supervisor, and checks that Remove and the next Start leave nothing.
func TestKilledSupervisor(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, cleanUp := range map[string]func(dir string) error{
		"Remove": func(dir string) error { return second(Remove(dir, quiet())) },
		"Start": func(dir string) error {
			if _, err := Start(ended, testConfig(t, dir)); !errors.Is(err, context.Canceled) {
				return fmt.Errorf("Start = %w, want %w", err, context.Canceled)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "hang")
			supervisor := supervise(t, dir)
			must.Do(t, supervisor.Process.Kill())
			_ = supervisor.Wait() // killed
			must.Do(t, cleanUp(dir))
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				t.Errorf("the directory is still there: %v", err)
			}
		})
	}
}

// supervise starts a supervisor, and waits until it starts components.
func supervise(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	supervisor := exec.CommandContext(t.Context(), testConfig(t, dir).Executable, "supervise", dir)
	supervisor.Stderr = os.Stderr
	must.Do(t, supervisor.Start())
	wait.Until(t, "the kubeconfig is written", func() error {
		_, err := os.Stat(layout{dir}.path(kubeconfigName))
		return err
	}, wait.CPUTime(supervisor.Process.Pid))
	return supervisor
}

// TestShutdown checks that the process of a supervisor has ended after Shutdown.
func TestShutdown(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "hang")
	supervisor := supervise(t, dir)
	must.Do(t, Shutdown(t.Context(), dir))
	if stat := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/stat", supervisor.Process.Pid)))(t); !strings.Contains(string(stat), ") Z ") {
		t.Errorf("the supervisor has not ended: %s", stat)
	}
	if err := supervisor.Wait(); err == nil || err.Error() != "signal: terminated" {
		t.Errorf("the supervisor ended with %v", err)
	}
	must.Do(t, second(Remove(dir, quiet())))
}

// TestShutdownWithoutRestore stops a cluster that cannot restore the machine.
func TestShutdownWithoutRestore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "hang")
	supervisor := supervise(t, dir)
	must.Do(t, os.Mkdir(filepath.Join(dir, nodeDirName), 0o700))
	must.Do(t, os.WriteFile(filepath.Join(dir, nodeDirName, "before.json"), []byte("{}"), 0o600))
	if err := Shutdown(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "down --data-dir "+dir+" again") {
		t.Errorf("Shutdown = %v, want an error that says what to do", err)
	}
	_ = supervisor.Wait() // terminated
	if err := second(Remove(dir, quiet())); err == nil || !strings.Contains(err.Error(), "nothing was restored") {
		t.Errorf("Remove = %v, want the reason", err)
	}
}

func TestFailedStartSaysWhy(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "fail")
	_, err := Start(t.Context(), testConfig(t, dir))
	if err == nil {
		t.Fatal("started without components")
	}
	for _, want := range []string{"etcd failed", "the disk is made of cheese", filepath.Join(dir, "logs", "etcd.log")} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not contain %q", err, want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "logs", "etcd.log")); err != nil {
		t.Errorf("the log is gone: %v", err)
	}
	if state, err := lastState(dir); err != nil || !strings.Contains(state.Problem, "etcd failed") {
		t.Errorf("last state %+v, %v", state, err)
	}
	if _, err := ReadState(dir); !errors.Is(err, ErrNotRunning) {
		t.Errorf("ReadState = %v, want %v", err, ErrNotRunning)
	}
	if removed, err := Remove(dir, quiet()); !removed || err != nil {
		t.Errorf("Remove = %v, %v", removed, err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory is still there: %v", err)
	}
}

func TestCanceledStartLeavesNothing(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	dir := filepath.Join(t.TempDir(), "hang")
	interrupted := errors.New("interrupted")
	var pid int
	go func() {
		for pid == 0 {
			time.Sleep(5 * time.Millisecond)
			if state, err := ReadState(dir); err == nil {
				etcd, _ := state.Component(Etcd)
				pid = etcd.PID
			}
		}
		cancel(interrupted)
	}()
	if _, err := Start(ctx, testConfig(t, dir)); !errors.Is(err, interrupted) {
		t.Errorf("Start = %v, want %v", err, interrupted)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory is still there: %v", err)
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); !os.IsNotExist(err) {
		t.Errorf("etcd still runs as process %d", pid)
	}
}

func TestStartRejects(t *testing.T) {
	busy := t.TempDir()
	lock := must.Get(claimAndLock(busy))(t)
	defer lock.release()
	for name, test := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"a directory in use":      {func(c *Config) { c.Dir = busy }, ErrRunning.Error()},
		"a missing executable":    {func(c *Config) { c.Executable = "/does/not/exist" }, "/does/not/exist"},
		"no directory":            {func(c *Config) { c.Dir = "" }, "needs an executable and a data directory"},
		"an odd scheduler config": {func(c *Config) { c.SchedulerConfig = []byte("kind: Pod") }, "kind is Pod"},
	} {
		t.Run(name, func(t *testing.T) {
			config := testConfig(t, filepath.Join(t.TempDir(), "cluster"))
			test.change(&config)
			_, err := Start(t.Context(), config)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Start = %v, want an error with %q", err, test.want)
			}
			if _, err := os.Stat(filepath.Join(config.Dir, "logs")); config.Dir != "" && !os.IsNotExist(err) {
				t.Errorf("something was left in %s: %v", config.Dir, err)
			}
		})
	}
}

func TestShutdownOfNothing(t *testing.T) {
	for name, dir := range map[string]string{"empty": t.TempDir(), "absent": filepath.Join(t.TempDir(), "no")} {
		if err := Shutdown(t.Context(), dir); !errors.Is(err, ErrNotRunning) {
			t.Errorf("%s: Shutdown = %v, want %v", name, err, ErrNotRunning)
		}
		if removed, err := Remove(dir, quiet()); removed || err != nil {
			t.Errorf("%s: Remove = %v, %v", name, removed, err)
		}
	}
}
