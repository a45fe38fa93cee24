package confine

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup"
)

// machine skips the test unless this machine's control groups can be used.
func machine(t *testing.T) *cgroup.FS {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not root: run as root to test on this machine's control groups")
	}
	fs, err := cgroup.Open("/")
	if err != nil {
		t.Skipf("this machine's control groups cannot be used: %v", err)
	}
	if _, err := fs.Home(cgroup.CPU, cgroup.CPUAcct, cgroup.CPUSet); err != nil {
		t.Skipf("groups cannot be made on this machine: %v", err)
	}
	return fs
}

// TestHost runs commands on this machine's kernel, of either version.
func TestHost(t *testing.T) {
	fs := machine(t)
	for name, test := range map[string]func(*testing.T){
		"limit": testLimit, "burst": testBurst, "cpus": testCPUs, "where": testWhere, "status": testStatus, "left": testLeft,
		"together": testTogether, "within": testWithin, "killed": testKilled, "killed-both": testKilledBoth,
		"signals": testSignals, "refused": testRefused, "descriptors": testDescriptors,
		"idle": testIdle, "not-root": func(t *testing.T) { testNotRoot(t, fs) }, "alone": func(t *testing.T) { testAlone(t, fs) },
	} {
		t.Run(name, func(t *testing.T) {
			test(t)
			deadline := time.Now().Add(time.Minute)
			for left := abandoned(t, fs); len(left) > 0; left = abandoned(t, fs) {
				if time.Now().After(deadline) {
					t.Fatalf("left behind: %v", left)
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
}

// abandoned lists the groups that nobody holds: other tests may run commands, too.
func abandoned(t *testing.T, fs *cgroup.FS) (left []string) {
	t.Helper()
	home, err := fs.Home(cgroup.CPU)
	if err != nil {
		t.Fatal(err)
	}
	above, err := lock(t.Context(), fs.Within(home.Roots).Dir(cgroup.CPU, "/"))
	if err != nil {
		t.Fatal(err)
	}
	defer above.Close()
	for _, dir := range groups(t) {
		if f, err := tryLock(dir); err == nil {
			f.Close()
			left = append(left, dir)
		}
	}
	return left
}

// groups lists the groups of runs in the cpu hierarchy.
func groups(t *testing.T) []string {
	t.Helper()
	fs, err := cgroup.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	err = filepath.WalkDir(fs.Dir(cgroup.CPU, "/"), func(name string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && (strings.HasPrefix("/"+d.Name(), runPrefix) || strings.HasPrefix("/"+d.Name(), selfPrefix)) {
			all = append(all, name)
		}
		return nil // others' groups come and go
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// run runs a command in this process, and returns what it printed.
func run(t *testing.T, o order) (*Result, string) {
	t.Helper()
	var out bytes.Buffer
	s := o.spec()
	s.Stdin, s.Stdout, s.Stderr = nil, &out, &out
	s.Notify = func(message string) { t.Log("notice:", message) }
	r, err := Run(t.Context(), s)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	return r, out.String()
}

// testLimit: of a second of wall time a fifth may be used, and one quota more.
func testLimit(t *testing.T) {
	const quota, period = 20 * time.Millisecond, 100 * time.Millisecond
	r, _ := run(t, order{Do: []string{"spin", "1s"}, Quota: quota, Period: period})
	most := r.Wall/5 + 2*quota
	if r.Stat.Usage > most || r.Stat.Usage < 50*time.Millisecond {
		t.Errorf("%v used in %v, want at most %v", r.Stat.Usage, r.Wall, most)
	}
	if r.Wall < time.Second || r.Stat.Throttled == 0 || r.Stat.Throttled > r.Stat.Periods || r.Stat.ThrottledTime < period {
		t.Errorf("a busy process was not throttled: %+v", r)
	}
	if r.Settings.Quota != quota || r.Settings.Period != period {
		t.Errorf("settings %+v", r.Settings)
	}
	if sum := r.User + r.System; sum != r.Stat.Usage && sum != 0 && (sum-r.Stat.Usage).Abs() > time.Millisecond {
		t.Errorf("%v user and %v system make %v?", r.User, r.System, r.Stat.Usage)
	}
	if r.MaxRSS < 1<<20 || r.MaxRSS > 1<<30 {
		t.Errorf("memory %d", r.MaxRSS)
	}
}

// testBurst: what does not fit in the quota fits in quota and burst.
func testBurst(t *testing.T) {
	o := order{Do: []string{"chunks", "8 30ms"}, Quota: 20 * time.Millisecond, Period: 100 * time.Millisecond}
	without, _ := run(t, o)
	o.Burst = o.Quota
	with, _ := run(t, o)
	if without.Stat.Throttled < 4 || without.Stat.Bursts != 0 {
		t.Errorf("without burst: %+v", without.Stat)
	}
	if with.Stat.Throttled >= without.Stat.Throttled || !with.Stat.NoBursts && with.Stat.Bursts == 0 {
		t.Errorf("with burst %+v, without %+v", with.Stat, without.Stat)
	}
}

func testCPUs(t *testing.T) {
	all := usable(t)
	first := cpuset.Of(all.First())
	for _, cpus := range []cpuset.Set{first, all.Difference(first), all} {
		if cpus.IsEmpty() {
			continue
		}
		r, out := run(t, order{Do: []string{"where"}, CPUs: cpus.String()})
		if _, got, _ := strings.Cut(strings.TrimSpace(out), " "); got != cpus.String() || r.Settings.Effective != cpus {
			t.Errorf("the command runs on %s, %s, want %s", got, r.Settings.Effective, cpus)
		}
	}
	if all.Len() < 2 {
		t.Skip("one CPU only: an affinity needs two to be narrower")
	}
	// A narrower affinity does not count against chosen CPUs.
	cmd := starting(t, order{Do: []string{"where"}, CPUs: all.String()})
	var out bytes.Buffer
	cmd.Stdout = &out
	narrowly(t, first, func() { begin(t, cmd) })
	if err := cmd.Wait(); err != nil || !strings.HasSuffix(out.String(), " "+all.String()+"\n") {
		t.Errorf("%v: it runs on %q, want %s", err, out.String(), all)
	}
}

// usable returns the CPUs that groups here may have.
func usable(t *testing.T) cpuset.Set {
	t.Helper()
	var parent cpuset.Set
	s := order{Do: []string{"exit", "0"}}.spec()
	s.CPUs = func(r Room) (cpuset.Set, error) { parent = r.Parent; return r.Parent, nil }
	if _, err := Run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	return parent
}

// testWhere: the command is in its group from its first instruction on, and so are
// its children.
func testWhere(t *testing.T) {
	_, out := run(t, order{Do: []string{"where", "child"}})
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 2 || lines[0] != lines[1] || !strings.Contains(lines[0], runPrefix) || !strings.Contains(lines[0], leaf+" ") {
		t.Errorf("command and child are in\n%s", out)
	}
}

func testStatus(t *testing.T) {
	for _, c := range []struct {
		do     []string
		status int
		signal syscall.Signal
	}{
		{[]string{"exit", "0"}, 0, 0}, {[]string{"exit", "42"}, 42, 0}, {[]string{"exit", "255"}, 255, 0},
		{[]string{"die", "9"}, 137, syscall.SIGKILL}, {[]string{"die", "15"}, 143, syscall.SIGTERM},
	} {
		if r, _ := run(t, order{Do: c.do}); r.ExitStatus != c.status || r.Signal != c.signal {
			t.Errorf("%v: status %d, signal %v", c.do, r.ExitStatus, r.Signal)
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

func testLeft(t *testing.T) {
	began := time.Now()
	if r, _ := run(t, order{Do: []string{"leave", "10m"}}); r.LeftBehind != 1 || time.Since(began) > 5*time.Minute {
		t.Errorf("%d processes left behind, after %v", r.LeftBehind, time.Since(began))
	}
	if r, _ := run(t, order{Do: []string{"leave", "1s"}, Wait: true}); r.LeftBehind != 1 || r.Wall < time.Second {
		t.Errorf("%d processes left behind and waited for, %v", r.LeftBehind, r.Wall)
	}
}

// starting is a run in another process.
func starting(t *testing.T, o order) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, doWord, "run", string(text))
	cmd.Stderr = logger{t}
	cmd.WaitDelay = time.Minute
	return cmd
}

func begin(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
}

// logger logs what a process says.
type logger struct{ t *testing.T }

func (l logger) Write(b []byte) (int, error) {
	l.t.Logf("%s", bytes.TrimSpace(b))
	return len(b), nil
}

// running starts a run and returns when its command says that it runs.
func running(t *testing.T, o order) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := starting(t, o)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	begin(t, cmd)
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	return cmd, lines
}

// testTogether: runs that begin at the same moment have groups and statistics of their
// own, and see each other's CPUs.
func testTogether(t *testing.T) {
	var cmds []*exec.Cmd
	for i := range 6 {
		cmd := starting(t, order{Do: []string{"exit", fmt.Sprint(i)}, Quota: 50 * time.Millisecond, CPUs: fmt.Sprint(usable(t).First())})
		begin(t, cmd)
		cmds = append(cmds, cmd)
	}
	for i, cmd := range cmds {
		_ = cmd.Wait()
		if status := cmd.ProcessState.ExitCode(); status != i {
			t.Errorf("run %d has status %d", i, status)
		}
	}
	first := cpuset.Of(usable(t).First())
	other, _ := running(t, order{Do: []string{"count"}, CPUs: first.String()})
	s := order{Do: []string{"exit", "0"}}.spec()
	s.CPUs = func(r Room) (cpuset.Set, error) {
		if r.Taken != first {
			t.Errorf("taken are %s, want %s", r.Taken, first)
		}
		return r.Parent, nil
	}
	if _, err := Run(t.Context(), s); err != nil {
		t.Error(err)
	}
	terminate(t, other)
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

// testWithin: a run within a run is in its group.
func testWithin(t *testing.T) {
	inner, err := json.Marshal(order{Do: []string{"where"}, Quota: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	r, out := run(t, order{Do: []string{"run", string(inner)}, Quota: 20 * time.Millisecond})
	if r.ExitStatus != 0 || strings.Count(out, runPrefix) != 2 {
		t.Errorf("status %d, where: %s", r.ExitStatus, out)
	}
}

// testKilled: kill -9 of a run ends the command and removes the group.
func testKilled(t *testing.T) {
	cmd, lines := running(t, order{Do: []string{"count"}, CPUs: fmt.Sprint(usable(t).First())})
	if len(groups(t)) == 0 {
		t.Fatal("there is no group while a command runs")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(lines); err != nil { // until the command has closed it
		t.Error(err)
	}
	_ = cmd.Wait()
}

// testKilledBoth: what a run leaves whose watcher was killed, too, the next one
// removes.
func testKilledBoth(t *testing.T) {
	cmd, lines := running(t, order{Do: []string{"count"}})
	for _, pid := range append(children(t, cmd.Process.Pid, watcherWord), cmd.Process.Pid) {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	_ = cmd.Process.Release()
	if len(groups(t)) == 0 {
		t.Fatal("nothing is left: this test does not test what it should")
	}
	var notices []string
	s := order{Do: []string{"exit", "0"}}.spec()
	s.Notify = func(message string) { notices = append(notices, message) }
	for began := time.Now(); len(notices) == 0 && time.Since(began) < time.Minute; { // until both are dead
		if _, err := Run(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if len(notices) != 1 || !strings.Contains(notices[0], "removed "+runPrefix) {
		t.Errorf("notices %q", notices)
	}
	if _, err := io.ReadAll(lines); err != nil {
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
		text, _ := os.ReadFile(name) // others' processes come and go
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

// testSignals: what the run gets the command gets.
func testSignals(t *testing.T) {
	cmd, lines := running(t, order{Do: []string{"count"}})
	for _, sig := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGHUP, syscall.SIGINT} {
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if line, err := lines.ReadString('\n'); line != unix.SignalName(sig)+"\n" {
			t.Errorf("after %v the command has got %q, %v", sig, line, err)
		}
	}
	terminate(t, cmd)
	// Those left behind, while they are waited for.
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

// testRefused: settings that the kernel refuses start nothing.
func testRefused(t *testing.T) {
	s := order{Do: []string{"exit", "0"}, Quota: 10 * time.Millisecond, Burst: 20 * time.Millisecond}.spec()
	s.Notify = func(string) {}
	if _, err := Run(t.Context(), s); !errors.Is(err, cgroup.ErrInvalid) {
		t.Errorf("burst above quota: %v", err)
	}
	s = order{Do: []string{"exit", "0"}, CPUs: "1000"}.spec()
	if _, err := Run(t.Context(), s); err == nil {
		t.Error("a CPU that is not there is accepted")
	}
}

// testDescriptors: the command has the descriptors that the run was given.
func testDescriptors(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	cmd := starting(t, order{Do: []string{"fds"}})
	cmd.ExtraFiles = []*os.File{write}
	begin(t, cmd)
	write.Close()
	text, err := io.ReadAll(read)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if string(text) != "still here" {
		t.Errorf("%q, %v", text, err)
	}
}

func testIdle(t *testing.T) {
	if r, _ := run(t, order{Do: []string{"exit", "0"}, Idle: true}); !r.Settings.Idle && !r.Settings.NoIdle {
		t.Errorf("not idle: %+v", r.Settings)
	}
}

// narrowly does something on some CPUs only.
func narrowly(t *testing.T, cpus cpuset.Set, do func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		// Never unlocked: the thread ends with this goroutine, and its affinity with it.
		err := useAll(cpus)
		if err == nil {
			do()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
