package agent

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
)

// batchesEnv makes TestBatches run in a process of this program.
const batchesEnv = "PINFOLD_TEST_BATCHES"

// The batches of the published experiment, with a quota of 10 ms: 25 ms of CPU time at once, at
// intervals that are not multiples of the period. That is half of the limit on average, and each
// batch exceeds quota and burst together.
const (
	batchTime  = 25 * time.Millisecond
	batchEvery = 503 * time.Millisecond
)

// TestBatches works in batches. It starts after a line on standard input and ends at its end.
func TestBatches(t *testing.T) {
	if os.Getenv(batchesEnv) == "" {
		t.Skip("another test runs this one in a process of its own")
	}
	input := bufio.NewReader(os.Stdin)
	if _, err := input.ReadString('\n'); err != nil {
		return
	}
	go func() {
		runtime.LockOSThread()
		for ; ; time.Sleep(batchEvery) { // a ticker could start two at once after a delay
			for begun := threadTime(); threadTime()-begun < batchTime; {
			}
		}
	}()
	_, _ = input.ReadString('\n')
}

// threadTime returns the CPU time that this thread has used.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}

// batches runs TestBatches in a cgroup.
func (h *hostTree) batches(group string) {
	h.t.Helper()
	command := exec.Command(os.Args[0], "-test.run=^TestBatches$")
	command.Env = append(os.Environ(), batchesEnv+"=1")
	input, err := command.StdinPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	h.start(command, group)
	if _, err := fmt.Fprintln(input); err != nil {
		h.t.Fatal(err)
	}
}

// TestBatchesOnThisMachine checks that work in batches is throttled in each batch without an agent,
// and with policy auto no more after the quota has been raised.
func TestBatchesOnThisMachine(t *testing.T) {
	tree := newHostTree(t)
	tree.requireBurst()
	pod, group := tree.runRaised("web")
	pod.Annotations["pinfold.dev/cpu-burst"] = `{"policy":"auto"}`
	tree.set(group, cgroup.CPUCFSBurst, "10000")
	tree.batches(group)
	throttled := func() uint64 {
		own, err := cgroupstat.Read(tree.fs, group)
		if err != nil {
			t.Fatal(err)
		}
		pods, err := cgroupstat.Read(tree.fs, tree.podGroup(pod))
		if err != nil {
			t.Fatal(err)
		}
		return own.Throttled + pods.Throttled
	}
	w := tree.world(t, pod)
	w.eventually(func() error {
		if throttled() == 0 {
			return fmt.Errorf("not throttled without an agent")
		}
		return nil
	})
	w.root = tree.idleRoot()
	w.config.Burst = burst.Policy{BurstPercent: 100, QuotaPercent: 300, QuotaBurstSeconds: 60}
	w.sampleInterval, w.period = 10*time.Millisecond, 10*time.Second
	w.start()
	ms := time.Millisecond
	w.eventually(func() error {
		return tree.has(group, bandwidth.Limits{Quota: 30 * ms, Period: 100 * ms, Burst: 10 * ms})
	})
	time.Sleep(batchEvery) // the batch that caused the raise
	before := throttled()
	time.Sleep(8 * batchEvery)
	if err := tree.has(group, bandwidth.Limits{Quota: 30 * ms, Period: 100 * ms, Burst: 10 * ms}); err != nil {
		t.Errorf("the quota is not raised any more: %v", err)
	}
	const oneBatch = 2 // throttled by the container's quota and by the pod's
	if now := throttled(); now-before > oneBatch {
		t.Errorf("throttled %d times in 8 batches with a raised quota", now-before)
	}
}
