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

	"pinfold.dev/pinfold/lab/load"
	"pinfold.dev/pinfold/linux/cgroup"
)

// batches is how many each row of TestHost has: more of them for better figures.
var batches = flag.Int("batches", 8, "batches of requests per row; each takes half a second")

// They come in rounds, one row after the other, so that what else the machine does
// disturbs all rows alike.
const (
	perRound = 4
	every    = 503 * time.Millisecond
)

// setting is a server in a group of its own, and the load on it.
type setting struct {
	name         string
	batch        int
	cpu          time.Duration // of each request
	quota, burst time.Duration // quota 0 for no limit
	expect       func(t *testing.T, r Row)
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

func never(t *testing.T, r Row) {
	if r.Counted.Periods+r.Counted.Throttled > 0 {
		t.Errorf("%s: %+v", r.Name, r.Counted)
	}
}

// bursts: each batch is about as much as quota and burst together, so whether it is
// throttled depends on how much the server needs for a request besides what is asked for.
func bursts(t *testing.T, r Row) {
	if !r.Counted.NoBursts && r.Counted.Bursts == 0 {
		t.Errorf("%s: never used more than its quota, although each of %d batches needs it", r.Name, *batches)
	}
}

// mostly: each batch is more than what there is, but on a busy machine some are spread
// over two periods.
func mostly(t *testing.T, r Row) {
	if int(r.Counted.Throttled) < *batches/2 {
		t.Errorf("%s: throttled in %d periods, want one for most of %d batches", r.Name, r.Counted.Throttled, *batches)
	}
}

// rarely: no batch uses up quota and burst, but those behind time may come together.
func rarely(t *testing.T, r Row) {
	if int(r.Counted.Throttled) > *batches/4 {
		t.Errorf("%s: throttled in %d periods, want next to none for %d batches", r.Name, r.Counted.Throttled, *batches)
	}
	bursts(t, r)
}

// TestHost repeats the published experiment on control groups of this machine: a server
// whose usage is a third of its limit is throttled in a third of its periods, and in
// none with kernel burst, unless it needs more than quota and burst at a time. What
// is asserted are the kernel's counters. Latencies are logged.
func TestHost(t *testing.T) {
	groups := openHost(t)
	program := buildServer(t)
	var rows []Row
	var urls, paths []string
	for i, s := range settings() {
		path := makeGroup(t, groups, fmt.Sprintf("/pinfold-throttling-%d-%d", os.Getpid(), i))
		urls = append(urls, startServer(t, groups, program, path)+"/?cpu="+s.cpu.String())
		paths = append(paths, path)
		rows = append(rows, Row{Name: s.name, Limit: Limit{Quota: cgroup.Unlimited, Period: 100 * time.Millisecond}})
		wanted := cgroup.Wanted{Weight: new(weights()[groups.Hierarchy(cgroup.CPU).Version])}
		if s.quota > 0 {
			rows[i].Limit.Quota = s.quota
			wanted.Quota, wanted.Period, wanted.Burst = &s.quota, &rows[i].Limit.Period, &s.burst
		}
		if err := groups.Apply(map[string]cgroup.Wanted{path: wanted}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for range (*batches + perRound - 1) / perRound {
		for i, s := range settings() {
			rows[i] = join(rows[i], measure(t, groups, paths[i], rows[i].Limit, s.batch, urls[i]))
		}
	}
	for i, s := range settings() {
		if rows[i].Load.Failed() > 0 {
			t.Errorf("%s: requests failed: %v", s.name, rows[i].Load.Failures)
		}
		if used := rows[i].Used(); used > 1 {
			t.Errorf("%s: used %.0f%% of the limit", s.name, 100*used)
		}
		s.expect(t, rows[i])
	}
	var table strings.Builder
	if err := WriteTable(&table, rows); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", table.String())
}

// measure is one round of a row.
func measure(t *testing.T, groups *cgroup.FS, path string, limit Limit, batch int, url string) Row {
	t.Helper()
	sender, err := load.NewHTTP(url)
	if err != nil {
		t.Fatal(err)
	}
	defer sender.Close()
	plan := load.Plan{Batch: batch, Every: every, Duration: perRound * every, Timeout: 10 * time.Second}
	row, err := Measure(t.Context(), groups, []string{path}, limit, plan, sender.Send)
	if err != nil {
		t.Fatal(err)
	}
	return row
}

// join adds up two rounds of a row.
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

// weights are ten times the usual: a server that others keep from running does not
// reach its limit.
func weights() map[cgroup.Version]cgroup.Weight {
	return map[cgroup.Version]cgroup.Weight{cgroup.V1: 10240, cgroup.V2: 1000}
}

// openHost skips where the experiment cannot be made.
func openHost(t *testing.T) *cgroup.FS {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not root: run as root to test on this machine's control groups")
	}
	if runtime.NumCPU() < 2 {
		t.Skip("needs two CPUs: one for the server's threads, one for what asks them")
	}
	groups, err := cgroup.Open("/")
	if err == nil {
		err = groups.CheckWritable()
	}
	if err != nil {
		t.Skipf("this machine's control groups cannot be used: %v", err)
	}
	return groups
}

// makeGroup makes a group for the controllers of CPU time, and removes it in the end.
func makeGroup(t *testing.T, groups *cgroup.FS, path string) string {
	t.Helper()
	for _, dir := range dirs(groups, path) {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			err := os.Remove(dir)
			for range 200 { // it is busy for a moment after its last process has ended
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
		t.Skip("this kernel has no burst: it came with Linux 5.14")
	}
	return path
}

// dirs are the directories of a group: on version 1 usage is counted in another one.
func dirs(groups *cgroup.FS, path string) []string {
	all := []string{groups.Dir(cgroup.CPU, path)}
	if groups.Hierarchy(cgroup.CPUAcct).Mount != "" {
		all = append(all, groups.Dir(cgroup.CPUAcct, path))
	}
	return slices.Compact(all)
}

// buildServer builds the program of the images that stand for web servers.
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

// startServer starts a server, moves it into a group and returns its URL. It has two
// threads to serve with whatever the machine has: with more, latencies would be others.
func startServer(t *testing.T, groups *cgroup.FS, program, path string) string {
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
	return "http://" + address
}
