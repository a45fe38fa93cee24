package confine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/test/wait"
)

func testStatus(t *testing.T) {
	for _, c := range []struct {
		do     []string
		status int
		signal syscall.Signal
	}{
		{[]string{"exit", "0"}, 0, 0}, {[]string{"exit", "42"}, 42, 0}, {[]string{"exit", "255"}, 255, 0},
		{[]string{"die", "9"}, 137, syscall.SIGKILL}, {[]string{"die", "15"}, 143, syscall.SIGTERM},
	} {
		if r, _ := run(t, order{Do: c.do}); r.ExitStatus != c.status || r.Signal != c.signal || r.Terminated {
			t.Errorf("%v: status %d, signal %v, terminated %t", c.do, r.ExitStatus, r.Signal, r.Terminated)
		}
	}
	notAProgram := filepath.Join(t.TempDir(), "text")
	noInterpreter := filepath.Join(t.TempDir(), "script")
	for name, text := range map[string]string{notAProgram: "x", noInterpreter: "#!/no/such\n"} {
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for path, missing := range map[string]bool{notAProgram: false, noInterpreter: true, "/no/such/command": true} {
		s := order{Do: []string{"exit", "0"}}.spec()
		s.Path = path
		var start *StartError
		if _, err := Run(t.Context(), s); !errors.As(err, &start) || start.Missing != missing {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// testTerminated ends the context of a command once the command is ready.
func testTerminated(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := order{Do: []string{"count"}}.spec()
	s.Stdout = onWrite(cancel)
	if r, err := Run(ctx, s); err != nil || !r.Terminated || r.ExitStatus != 3 {
		t.Errorf("%+v, error %v, want that it was terminated, with status 3", r, err)
	}
}

// onWrite is called when something is written to it.
type onWrite func()

func (f onWrite) Write(text []byte) (int, error) { f(); return len(text), nil }

func testLeft(t *testing.T) {
	if r, _ := run(t, order{Do: []string{"leave", "10m"}}); r.LeftBehind != 1 {
		t.Errorf("%d processes left behind", r.LeftBehind)
	}
	if r, _ := run(t, order{Do: []string{"leave", "1s"}, Wait: true}); r.LeftBehind != 1 || r.Wall < time.Second {
		t.Errorf("%d processes left behind and waited for, %v", r.LeftBehind, r.Wall)
	}
}

func terminate(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
	if status := cmd.ProcessState.ExitCode(); status != 3 {
		t.Errorf("status %d after SIGTERM, want the command's 3", status)
	}
}

// testKilled checks that kill -9 of a run ends the command and removes the group.
func testKilled(t *testing.T) {
	cmd, lines := running(t, order{Do: []string{"count"}, CPUs: fmt.Sprint(usable(t).First())})
	if len(groups(t)) == 0 {
		t.Fatal("there is no group while a command runs")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(lines); err != nil { // ends when the command does
		t.Error(err)
	}
	_ = cmd.Wait()
}

// testKilledBoth checks that, if a run and its watcher were killed, the next run in the same place
// removes their group. On version 1 both runs are in a group of this test, where runs of other
// tests do not find it. On version 2 this is impossible, because a run that is alone in a group
// leaves it.
func testKilledBoth(t *testing.T, fs *cgroup.FS) {
	var procs []string
	if fs.Layout().CPU == cgroup.V1 {
		procs = ownGroup(t, fs, "/pinfold-test-both", 0)
	}
	cmd := starting(t, order{Do: []string{"count"}})
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	beginIn(t, cmd, procs)
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	watcher := children(t, cmd.Process.Pid, watcherWord)
	for _, pid := range append(watcher, cmd.Process.Pid) {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := cmd.Process.Wait(); err != nil {
		t.Fatal(err)
	}
	said := ""
	wait.True(t, "the next run removes it, when the watcher has ended", func() bool {
		said = inGroup(t, procs, 0, order{Do: []string{"exit", "0"}})
		return strings.Contains(said, "removed "+runPrefix)
	})
	if n := strings.Count(said, "removed "+runPrefix); n != 1 {
		t.Errorf("the next run says %q", said)
	}
	if _, err := io.ReadAll(lines); err != nil { // until the command has ended
		t.Error(err)
	}
}

// children lists the children of a process that have a word among their arguments.
func children(t *testing.T, of int, word string) []int {
	t.Helper()
	var found []int
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range stats {
		var pid, parent int
		var comm, state string
		text, _ := os.ReadFile(name) // processes of others start and end meanwhile
		_, _ = fmt.Sscan(string(text), &pid, &comm, &state, &parent)
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "cmdline"))
		if parent == of && slices.Contains(strings.Split(string(line), "\x00"), word) {
			found = append(found, pid)
		}
	}
	if len(found) != 1 {
		t.Fatalf("process %d has %d children with %s, want one", of, len(found), word)
	}
	return found
}

// testSignals checks that signals to the run reach the command.
func testSignals(t *testing.T) {
	cmd, lines := running(t, order{Do: []string{"count"}})
	for _, sig := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(sig) { // as under nohup; then the command ignores it, too
			continue
		}
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if line, err := lines.ReadString('\n'); line != unix.SignalName(sig)+"\n" {
			t.Errorf("after %v the command has got %q, %v", sig, line, err)
		}
	}
	terminate(t, cmd)
	// Processes left behind get them while the run waits for them.
	cmd = starting(t, order{Do: []string{"leave", "10m"}, Wait: true})
	begin(t, cmd)
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	for {
		select {
		case <-ended:
			return
		case <-time.After(200 * time.Millisecond):
			_ = cmd.Process.Signal(syscall.SIGTERM)
		}
	}
}
