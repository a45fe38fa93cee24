package throttling

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/lab/load"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptest"
	"pinfold.dev/pinfold/test/busy"
)

// batches is the number of batches per row of TestHost. More batches give better figures.
var batches = flag.Int("batches", 8, "batches of requests per row; each takes half a second")

// Batches are sent in rounds, one row after the other, so that other activity of the machine affects
// all rows alike.
const (
	perRound = 4
	every    = 503 * time.Millisecond
)

// setting is a server in its own group, and the load on it.
type setting struct {
	name         string
	batch        int
	cpu          time.Duration // of each request
	quota, burst time.Duration // quota 0 for no limit
	expect       func(r Row) (problem string)
}

func settings() []setting {
	const ms = time.Millisecond
	return []setting{
		{"12 x 11.7ms, no limit", 12, 11700 * time.Microsecond, 0, 0, never},
		{"12 x 11.7ms, quota 86ms", 12, 11700 * time.Microsecond, 86 * ms, 0, mostly},
		{"12 x 11.7ms, quota 86ms, burst 86ms", 12, 11700 * time.Microsecond, 86 * ms, 86 * ms, rarely},
		{"4 x 3.2ms, no limit", 4, 3200 * time.Microsecond, 0, 0, never},
		{"4 x 3.2ms, quota 10ms", 4, 3200 * time.Microsecond, 10 * ms, 0, mostly},
		{"4 x 3.2ms, quota 10ms, burst 10ms", 4, 3200 * time.Microsecond, 10 * ms, 10 * ms, rarely},
		{"4 x 4.5ms, quota 10ms, burst 10ms", 4, 4500 * time.Microsecond, 10 * ms, 10 * ms, bursts},
		{"4 x 7ms, quota 10ms, burst 10ms", 4, 7 * ms, 10 * ms, 10 * ms, mostly},
	}
}

func never(r Row) string {
	if r.Counted.Periods+r.Counted.Throttled > 0 {
		return fmt.Sprintf("counted %+v without a limit", r.Counted)
	}
	return ""
}

// bursts expects bursts. Each batch needs about quota and burst together, so whether it is throttled
// depends on the server's own overhead per request.
func bursts(r Row) string {
	if !r.Counted.NoBursts && r.Counted.Bursts == 0 {
		return fmt.Sprintf("no burst, although each of %d batches needs one", *batches)
	}
	return ""
}

// mostly expects most batches to be throttled. Each needs more than quota and burst, but on a busy
// machine some are spread over two periods.
func mostly(r Row) string {
	if int(r.Counted.Throttled) < *batches/2 {
		return fmt.Sprintf("throttled in %d periods, want one for most of %d batches", r.Counted.Throttled, *batches)
	}
	return ""
}

// rarely expects almost no throttling. No batch needs quota and burst, but delayed batches may
// coincide.
func rarely(r Row) string {
	if int(r.Counted.Throttled) > *batches/4 {
		return fmt.Sprintf("throttled in %d periods, want next to none for %d batches", r.Counted.Throttled, *batches)
	}
	return bursts(r)
}

// TestHost repeats the published experiment on cgroups of this machine: a server whose usage is a
// third of its limit is throttled in a third of its periods, and in none with kernel burst, unless it
// needs more than quota and burst at once. The test asserts the kernel's counters and logs the
// latencies. It repeats the measurement if a row failed whose server had to wait for CPUs.
func TestHost(t *testing.T) {
	groups := openHost(t)
	program := buildServer(t)
	var servers []server
	for i, s := range settings() {
		path := makeGroup(t, groups, fmt.Sprintf("/pinfold-throttling-%d-%d", os.Getpid(), i))
		one := startServer(t, groups, program, path)
		one.url += "/?cpu=" + s.cpu.String()
		one.limit = bandwidth.Limits{Quota: bandwidth.Unlimited, Period: 100 * time.Millisecond}
		wanted := cgroup.Wanted{Weight: new(weights()[groups.Hierarchy(cgroup.CPU).Version])}
		if s.quota > 0 {
			one.limit.Quota = s.quota
			wanted.Quota, wanted.Period, wanted.Burst = &s.quota, &one.limit.Period, &s.burst
		}
		if err := groups.Apply(map[string]cgroup.Wanted{path: wanted}).Err(); err != nil {
			t.Fatal(err)
		}
		servers = append(servers, one)
	}
	busy.Repeat(t, 4, func() (disturbed string) {
		rows, waited := measureAll(t, groups, servers)
		for i, s := range settings() {
			if rows[i].Load.Failed() > 0 {
				t.Errorf("%s: requests failed: %v", s.name, rows[i].Load.Failures)
			}
			if used := rows[i].Used(); used > 1 {
				t.Errorf("%s: used %.0f%% of the limit", s.name, 100*used)
			}
			problem := s.expect(rows[i])
			switch {
			case problem == "":
			case waited[i] > rows[i].Counted.Usage/10:
				disturbed = fmt.Sprintf("%s: used %v and waited for CPUs for %v: %s", s.name, rows[i].Counted.Usage, waited[i], problem)
			default:
				t.Errorf("%s: %s", s.name, problem)
			}
		}
		var table strings.Builder
		if err := WriteTable(&table, rows); err != nil {
			t.Fatal(err)
		}
		t.Logf("\n%s", table.String())
		return disturbed
	})
}

// server is a running server and its group.
type server struct {
	path, url string
	limit     bandwidth.Limits
	pid       int
}

// measureAll measures all rows, and how long each server waited for CPUs.
func measureAll(t *testing.T, groups *cgroup.FS, servers []server) (rows []Row, waited []time.Duration) {
	t.Helper()
	waits := func(s server) time.Duration {
		d, err := waitedFor(s.pid)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for i, s := range settings() {
		rows = append(rows, Row{Name: s.name, Limit: servers[i].limit})
		waited = append(waited, -waits(servers[i]))
	}
	for range (*batches + perRound - 1) / perRound {
		for i, s := range settings() {
			rows[i] = join(rows[i], measureRound(t, groups, servers[i].path, rows[i].Limit, s.batch, servers[i].url))
		}
	}
	for i := range rows {
		waited[i] += waits(servers[i]) - rows[i].Counted.ThrottledTime
	}
	return rows, waited
}

// measureRound measures one round of a row.
func measureRound(t *testing.T, groups *cgroup.FS, path string, limit bandwidth.Limits, batch int, url string) Row {
	t.Helper()
	sender, err := load.NewHTTP(url)
	if err != nil {
		t.Fatal(err)
	}
	defer sender.Close()
	plan := load.Plan{Batch: batch, Every: every, Duration: perRound * every, Timeout: 10 * time.Second}
	row, err := measure(t.Context(), groups, []string{path}, limit, plan, sender.Send)
	if err != nil {
		t.Fatal(err)
	}
	return row
}

// join adds two rounds of a row.
func join(a, b Row) Row {
	a.Wall += b.Wall
	a.Load.Sent += b.Load.Sent
	a.Load.Latencies = append(a.Load.Latencies, b.Load.Latencies...)
	slices.Sort(a.Load.Latencies)
	a.Load.Lateness = max(a.Load.Lateness, b.Load.Lateness)
	for failure, n := range b.Load.Failures {
		if a.Load.Failures == nil {
			a.Load.Failures = map[string]int{}
		}
		a.Load.Failures[failure] += n
	}
	a.Counted.Periods += b.Counted.Periods
	a.Counted.Throttled += b.Counted.Throttled
	a.Counted.ThrottledTime += b.Counted.ThrottledTime
	a.Counted.Bursts += b.Counted.Bursts
	a.Counted.BurstTime += b.Counted.BurstTime
	a.Counted.Usage += b.Counted.Usage
	a.Counted.NoBursts = b.Counted.NoBursts
	return a
}

// weights are ten times the default, so that other processes do not keep a server from reaching its
// limit.
func weights() map[cgroup.Version]cgroup.Weight {
	return map[cgroup.Version]cgroup.Weight{cgroup.V1: 10240, cgroup.V2: 1000}
}

// openHost opens this machine's cgroups, and skips the test where the experiment is not possible.
func openHost(t *testing.T) *cgroup.FS {
	t.Helper()
	if runtime.NumCPU() < 2 {
		t.Skip("needs two CPUs: one for the server, one for its client")
	}
	return cgrouptest.OpenHost(t)
}

// makeGroup makes a group for the duration of the test.
func makeGroup(t *testing.T, groups *cgroup.FS, path string) string {
	t.Helper()
	for _, dir := range dirs(groups, path) {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			err := os.Remove(dir)
			for range 200 { // it stays busy for a moment after its last process has ended
				if err == nil || errors.Is(err, fs.ErrNotExist) {
					return
				}
				time.Sleep(10 * time.Millisecond)
				err = os.Remove(dir)
			}
			t.Errorf("remove the group of the test: %v", err)
		})
	}
	if s, err := groups.ReadParts(path, cgroup.Parts{Bandwidth: true}); errors.Is(err, cgroup.ErrNotEnabled) {
		t.Skipf("the cpu controller is not enabled: write \"+cpu\" to the root's cgroup.subtree_control to run this test (%v)", err)
	} else if err != nil {
		t.Fatal(err)
	} else if s.NoBurst {
		t.Skip("this kernel has no burst, which needs Linux 5.14")
	}
	return path
}

// dirs returns the directories of a group. On version 1, usage is counted in another hierarchy.
func dirs(groups *cgroup.FS, path string) []string {
	all := []string{groups.Dir(cgroup.CPU, path)}
	if groups.Hierarchy(cgroup.CPUAcct).Mount != "" {
		all = append(all, groups.Dir(cgroup.CPUAcct, path))
	}
	return slices.Compact(all)
}

// buildServer builds the web server of the example images.
func buildServer(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "web")
	command := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", program, "../images/web")
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := command.CombinedOutput(); err != nil {
		t.Fatalf("build the server: %v\n%s", err, text)
	}
	return program
}

// startServer starts a server and moves it into a group. It has two threads on any machine, because
// the latencies depend on their number.
func startServer(t *testing.T, groups *cgroup.FS, program, path string) server {
	t.Helper()
	command := exec.Command(program, "--listen=127.0.0.1:0")
	command.Env = append(os.Environ(), "GOMAXPROCS=2")
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill() // it may have ended
		_ = command.Wait()         // killed
	})
	line, err := bufio.NewReader(output).ReadString('\n')
	_, address, ok := strings.Cut(strings.TrimSpace(line), " on ")
	if err != nil || !ok {
		t.Fatalf("the server said %q, %v", line, err)
	}
	for _, dir := range dirs(groups, path) {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(command.Process.Pid)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return server{path: path, url: "http://" + address, pid: command.Process.Pid}
}

// waitedFor returns how long the current threads of a process have been ready to run but did not run,
// because others ran or they were throttled (the second number of /proc/PID/task/TID/schedstat,
// Documentation/scheduler/sched-stats.rst).
func waitedFor(pid int) (time.Duration, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no waiting times of process %d: it has ended, or the kernel lacks CONFIG_SCHED_INFO", pid)
	}
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for _, file := range files {
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the thread has ended
		}
		var ran, waited time.Duration
		if err == nil {
			_, err = fmt.Sscan(string(text), &ran, &waited)
		}
		if err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
		sum += waited
	}
	return sum, nil
}
