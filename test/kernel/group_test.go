package kernel

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptest"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/wait"
)

// group is a cgroup with a load generator in it.
type group struct {
	fs       *cgroup.FS
	path     string
	in       *json.Encoder
	out      *json.Decoder
	threads  int
	boundary time.Duration // of the monotonic clock, at which a period ended
	doubt    time.Duration // the uncertainty of that
}

// newGroup creates a cgroup and starts threads in it.
func newGroup(t *testing.T, threads int) *group {
	t.Helper()
	g := &group{fs: cgrouptest.OpenHost(t), path: fmt.Sprintf("/pinfold-kernel-test-%d", os.Getpid()), threads: threads}
	g.make(t)
	g.start(t)
	return g
}

func (g *group) make(t *testing.T) {
	t.Helper()
	v2 := g.fs.Layout().CPU == cgroup.V2
	for _, c := range []cgroup.Controller{cgroup.CPU, cgroup.CPUAcct} {
		if v2 && c == cgroup.CPUAcct {
			continue
		}
		dir := g.fs.Dir(c, g.path)
		if err := os.Mkdir(dir, 0o755); errors.Is(err, os.ErrExist) {
			continue // both hierarchies are the same
		} else if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { removeGroup(t, dir) })
		if v2 {
			g.writeFile(t, dir+"/cgroup.type", "threaded")
		}
	}
	if _, err := cgroupstat.Read(g.fs, g.path); err != nil {
		t.Skipf("cgroups here have no bandwidth control: %v", err)
	}
	// Other programs must wait for this cgroup, not the reverse.
	if v2 {
		g.writeFile(t, g.fs.Dir(cgroup.CPU, g.path)+"/cpu.weight", "10000")
	} else {
		g.writeFile(t, g.fs.Dir(cgroup.CPU, g.path)+"/cpu.shares", "262144")
	}
}

func (g *group) writeFile(t *testing.T, name, text string) {
	t.Helper()
	must.Do(t, os.WriteFile(name, []byte(text), 0o644))
}

// rewrite writes the current quota again.
func (g *group) rewrite(t *testing.T, l bandwidth.Limits) {
	t.Helper()
	if g.fs.Layout().CPU == cgroup.V2 {
		g.writeFile(t, g.fs.File(g.path, cgroup.CPUMax), fmt.Sprint(l.Quota.Microseconds(), l.Period.Microseconds()))
		return
	}
	g.writeFile(t, g.fs.File(g.path, cgroup.CPUCFSQuota), fmt.Sprint(l.Quota.Microseconds()))
}

// removeGroup removes a cgroup, which is busy for a moment after its last process has ended.
func removeGroup(t *testing.T, dir string) {
	t.Helper()
	wait.Until(t, "the test's cgroup is removed", func() error {
		if err := os.Remove(dir); !cgroup.IsGone(err) {
			return err
		}
		return nil
	})
}

// start starts the load generator and moves its threads into the cgroup.
func (g *group) start(t *testing.T) {
	t.Helper()
	self := must.Get(os.Executable())(t)
	load := exec.Command(self)
	// Signals of Go's scheduler would wake threads at times that are not in the script.
	load.Env = append(os.Environ(), loadThreads+"="+strconv.Itoa(g.threads), "GODEBUG=asyncpreemptoff=1")
	load.Stderr = os.Stderr
	in, errIn := load.StdinPipe()
	out, errOut := load.StdoutPipe()
	must.Do(t, errors.Join(errIn, errOut, load.Start()))
	t.Cleanup(func() {
		in.Close()
		if err := load.Wait(); err != nil {
			t.Errorf("the load generator: %v", err)
		}
	})
	g.in, g.out = json.NewEncoder(in), json.NewDecoder(out)
	var tids []int
	if err := g.out.Decode(&tids); err != nil {
		t.Fatalf("the load generator does not start: %v", err)
	}
	for _, tid := range tids {
		if g.fs.Layout().CPU == cgroup.V2 {
			g.writeFile(t, g.fs.Dir(cgroup.CPU, g.path)+"/cgroup.threads", strconv.Itoa(tid))
			continue
		}
		g.writeFile(t, g.fs.Dir(cgroup.CPU, g.path)+"/tasks", strconv.Itoa(tid))
		g.writeFile(t, g.fs.Dir(cgroup.CPUAcct, g.path)+"/tasks", strconv.Itoa(tid))
	}
}

// set writes settings and determines when periods end.
func (g *group) set(t *testing.T, l bandwidth.Limits) {
	t.Helper()
	o := g.fs.Apply(map[string]cgroup.Wanted{g.path: {Quota: &l.Quota, Period: &l.Period, Burst: &l.Burst}})
	must.Do(t, o.Err())
	for range 20 {
		if g.findBoundary(t, l.Period); g.doubt < ms/4 {
			return
		}
	}
	t.Skipf("the machine is too busy: the start of periods is known only to %v: run this test on an idle machine", g.doubt)
}

// findBoundary keeps the cgroup just busy enough for its timer to run, and reads nr_periods
// repeatedly: each change lies between two reads.
func (g *group) findBoundary(t *testing.T, period time.Duration) {
	t.Helper()
	var s script = make([][]Burst, g.threads)
	first := now() + 10*time.Millisecond
	n := int(max(10, 300*time.Millisecond/period))
	for i := range n {
		s[0] = append(s[0], Burst{Start: first + time.Duration(i)*period, Work: 1200 * time.Microsecond})
	}
	played := g.send(t, s)
	var low, high time.Duration // range of the boundary, modulo period
	last, at := g.stat(t).Periods, now()
	for end := first + time.Duration(n)*period; at < end; {
		before := now()
		periods := g.stat(t).Periods
		after := now()
		if periods == last+1 {
			l, h := at%period, at%period+after-at
			if high != 0 { // moved by periods as near to the previous range as possible
				for l > high {
					l, h = l-period, h-period
				}
				for h < low {
					l, h = l+period, h+period
				}
				l, h = max(l, low), min(h, high)
			}
			if l <= h {
				low, high = l, h
			}
		}
		last, at = periods, before
		time.Sleep(50 * time.Microsecond)
	}
	if high == 0 {
		t.Fatal("the cgroup's timer does not run")
	}
	played()
	g.boundary, g.doubt = (low+high)/2, (high-low)/2
}

// stat reads the cgroup's statistics.
func (g *group) stat(t *testing.T) cgroupstat.Stat {
	t.Helper()
	return must.Get(cgroupstat.Read(g.fs, g.path))(t)
}

// nextPeriod returns the start of the first period at or after a time.
func (g *group) nextPeriod(after, period time.Duration) time.Duration {
	d := (g.boundary - after) % period
	if d < 0 {
		d += period
	}
	return after + d
}

// send starts a script. The returned function waits for its end.
func (g *group) send(t *testing.T, s script) func() script {
	t.Helper()
	if err := g.in.Encode(s); err != nil {
		t.Fatalf("the load generator has ended: %v", err)
	}
	return func() script {
		t.Helper()
		var played script
		if err := g.out.Decode(&played); err != nil {
			t.Fatalf("the load generator has ended: %v", err)
		}
		return played
	}
}
