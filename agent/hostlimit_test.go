package agent

import (
	"errors"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
	"pinfold.dev/pinfold/test/variables"
)

// TestAverageOnThisMachine checks that a container with random load uses no more than its limit
// over time plus a constant, although its quota is raised, each write grants CPU time, and agents
// are replaced at random. PINFOLD_TEST_LONG=5m makes it run longer.
func TestAverageOnThisMachine(t *testing.T) {
	tree := newHostTree(t)
	duration := longTest(t)
	pod, group := tree.runRaised("web")
	w := tree.world(t, pod)
	w.root = tree.idleRoot()
	w.sampleInterval, w.period = 10*time.Millisecond, 10*time.Second
	stop := w.start()
	w.eventually(w.ready)
	late := watchLateness(t)
	process := tree.spin(group)
	begun, raises, random := time.Now(), 0, variables.Random(t)
	for time.Since(begun) < duration {
		stopped := process.Signal(syscall.SIGSTOP)
		time.Sleep(time.Duration(1+random.IntN(3000)) * time.Millisecond)
		if err := errors.Join(stopped, process.Signal(syscall.SIGCONT)); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Duration(1+random.IntN(1500)) * time.Millisecond)
		if s, err := tree.fs.Read(group); err == nil && s.Quota > 10*time.Millisecond {
			raises++
		}
		if random.IntN(8) == 0 {
			stop()
			stop = w.start()
		}
	}
	elapsed := time.Since(begun)
	stat, err := cgroupstat.Read(tree.fs, group)
	if err != nil {
		t.Fatal(err)
	}
	base := bandwidth.Limits{Quota: 10 * time.Millisecond, Period: 100 * time.Millisecond}
	policy := burst.Policy{Mode: burst.Quota, BurstPercent: 100, QuotaPercent: 300, QuotaBurstSeconds: 60}
	most := elapsed/10 + burst.Slack(base, policy, late.most()+time.Second)
	t.Logf("used %v in %v, the limit allows %v; saw the quota raised %d times; wake-ups were at most %v late", stat.Usage, elapsed, elapsed/10, raises, late.most())
	if stat.Usage > most {
		t.Errorf("used %v in %v, want at most %v", stat.Usage, elapsed, most)
	}
}

// longTest returns the duration of a test: 5 s, or PINFOLD_TEST_LONG.
func longTest(t *testing.T) time.Duration {
	t.Helper()
	return variables.Duration(t, "PINFOLD_TEST_LONG", 5*time.Second)
}

// lateness is the longest delay with which a goroutine of this process has woken up.
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

// attack is an annotation that the pod's author changes between two values.
type attack struct{ key, one, other string }

// TestAttacksOnThisMachine changes an annotation of a pod ten times a second while its container is
// busy. The container must not use more than its limit over time, plus what its budget had before
// and the bucket with which it began. PINFOLD_TEST_LONG sets the duration of each attack.
func TestAttacksOnThisMachine(t *testing.T) {
	const period, burst = "pinfold.dev/cpu-period", "pinfold.dev/cpu-burst"
	for name, a := range map[string]attack{
		"long periods":  {period, "1s", "999ms"},
		"short periods": {period, "100ms", "99ms"},
		"burstPercent":  {burst, `{"policy":"burst","burstPercent":100}`, `{"policy":"burst","burstPercent":99}`},
		"policy":        {burst, `{"policy":"none"}`, `{"policy":"burst","burstPercent":100}`},
	} {
		t.Run(name, func(t *testing.T) { a.run(t) })
	}
}

func (a attack) run(t *testing.T) {
	tree := newHostTree(t)
	tree.requireBurst()
	duration := longTest(t)
	const limit = 10 // percent of a CPU
	pod := raisedPod("web")
	pod.Annotations = map[string]string{}
	w := tree.world(t)
	w.config.Burst.BurstPercent, w.sampleInterval, w.period = 100, 10*time.Millisecond, 10*time.Second
	w.start()
	w.eventually(w.ready)
	id := containerID('a')
	group, _ := tree.container(pod, id)
	tree.set(group, cgroup.CPUCFSQuota, "10000")
	run(pod, id)
	if err := w.client.Tracker().Add(pod); err != nil {
		t.Fatal(err)
	}
	change := func(value string) {
		p := pod.DeepCopy()
		p.Annotations[a.key] = value
		if _, err := w.client.CoreV1().Pods(p.Namespace).Update(t.Context(), p, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	before, err := cgroupstat.Read(tree.fs, group)
	if err != nil {
		t.Fatal(err)
	}
	tree.spin(group)
	begun, changes := time.Now(), 0
	for time.Since(begun) < duration {
		change([]string{a.one, a.other}[changes%2])
		changes++
		time.Sleep(100 * time.Millisecond)
	}
	after, err := cgroupstat.Read(tree.fs, group)
	elapsed := time.Since(begun)
	if err != nil {
		t.Fatal(err)
	}
	s, err := tree.fs.Read(group)
	if err != nil {
		t.Fatal(err)
	}
	used := after.Usage - before.Usage
	// The budget and the bucket hold three seconds and two quotas at most. The kernel's slices of 5
	// ms, on each of a few CPUs, come on top once.
	most := elapsed*limit/100 + 3*time.Second*limit/100 + 2*100*time.Millisecond*limit/100 + 20*time.Millisecond
	t.Logf("used %v in %v, the limit allows %v; %d changes; at the end %v per %v, burst %v", used, elapsed, elapsed*limit/100, changes, s.Quota, s.Period, s.Burst)
	if used > most {
		t.Errorf("used %v in %v, want at most %v", used, elapsed, most)
	}
}
