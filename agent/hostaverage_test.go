package agent

import (
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/test/variables"
)

// TestAverageOnThisMachine: whatever a container asks for and whenever agents are replaced,
// it does not use more than its limit over time and a constant, although its quota is
// raised and each write gives away CPU time. PINFOLD_TEST_LONG=5m runs it for longer.
func TestAverageOnThisMachine(t *testing.T) {
	tree := newHostTree(t)
	duration := longTest(t)
	pod, group := tree.runRaised("web")
	w := newWorld(t, pod)
	w.root, w.kubelet = tree.idleRoot(), control.Kubelet{CPUManagerPolicy: "none", CgroupRoot: tree.root}
	w.sampleInterval, w.period = 10*time.Millisecond, 10*time.Second
	stop := w.start()
	w.eventually(w.ready)
	late := watchLateness(t)
	process := tree.spin(group)
	begun, raises := time.Now(), 0
	for time.Since(begun) < duration {
		process.signal(syscall.SIGSTOP)
		time.Sleep(time.Duration(1+rand.IntN(3000)) * time.Millisecond)
		process.signal(syscall.SIGCONT)
		time.Sleep(time.Duration(1+rand.IntN(1500)) * time.Millisecond)
		if s, err := tree.fs.Read(group); err == nil && s.Quota > 10*time.Millisecond {
			raises++
		}
		if rand.IntN(8) == 0 {
			stop()
			stop = w.start()
		}
	}
	elapsed := time.Since(begun)
	stat, err := tree.fs.Stat(group)
	if err != nil {
		t.Fatal(err)
	}
	base := bandwidth.Limits{Quota: 10 * time.Millisecond, Period: 100 * time.Millisecond}
	policy := burst.Policy{Mode: burst.Quota, BurstPercent: 100, QuotaPercent: 300, QuotaBurstSeconds: 60}
	most := elapsed/10 + burst.Slack(base, policy, late.most()+time.Second)
	t.Logf("used %v in %v, a limit of %v; quota was seen raised %d times; at most %v late", stat.Usage, elapsed, elapsed/10, raises, late.most())
	if stat.Usage > most {
		t.Errorf("used %v in %v, at most %v may be", stat.Usage, elapsed, most)
	}
}

// longTest is how long a test runs: 5 s, or PINFOLD_TEST_LONG.
func longTest(t *testing.T) time.Duration {
	t.Helper()
	return variables.Duration(t, "PINFOLD_TEST_LONG", 5*time.Second)
}

// lateness is how late a goroutine of this process wakes up on this machine at worst.
type lateness struct{ worst atomic.Int64 }

func (l *lateness) most() time.Duration { return time.Duration(l.worst.Load()) }

func watchLateness(t *testing.T) *lateness {
	var l lateness
	go func() {
		const pause = 20 * time.Millisecond
		for before := time.Now(); t.Context().Err() == nil; before = time.Now() {
			time.Sleep(pause)
			if late := int64(time.Since(before) - pause); late > l.worst.Load() {
				l.worst.Store(late)
			}
		}
	}()
	return &l
}
