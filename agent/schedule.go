package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/internal/atomicfile"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/scx"
)

// batchScheduler is the scheduler for batch pods in the kernel.
type batchScheduler struct {
	mu sync.Mutex // protects the following fields
	// running is nil while the kernel does not run the scheduler, and lacking is why, if it is to.
	running *scx.Scheduler
	lacking string
	stats   scx.Stats
	pods    map[uint64]control.BatchPod // by the numbers of their groups
	rescue  colocation.Rescue           // to the fair class
	ended   uint64                      // how often the kernel has ended the scheduler
	gap     time.Duration               // for which there was none when the agent was replaced
}

// why returns why the kernel does not run the scheduler, "" if it does, or if that has not been tried.
func (b *batchScheduler) why() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lacking
}

// setBudget tells the scheduler the budget of batch pods, if it runs.
func (b *batchScheduler) setBudget(budget quantity.CPUs) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running != nil {
		_ = b.running.SetBudget(budget) // which fails only for a scheduler that is not loaded
	}
}

// turnOverEvery is how often threads that have joined batch pods are turned over to the scheduler.
// mostPause bounds the time between attempts to load the scheduler, which doubles with each failure.
const (
	turnOverEvery = time.Second
	mostPause     = 10 * time.Minute
)

// verifierLines is how much of the verifier's log, which ends with the reason, is logged.
const verifierLines = 50

// scheduleBatch runs the scheduler for batch pods until the context ends. If it is not wanted,
// scheduleBatch takes threads from it that an earlier agent turned over, once.
func (e *engine) scheduleBatch(ctx context.Context) {
	if !e.Priority.Wants(colocation.SchedExt) {
		for ctx.Err() == nil && !e.turnAllBack() {
			sleep.For(ctx, e.RetryAfter)
		}
		return
	}
	for pause := e.RetryAfter; ctx.Err() == nil; pause = min(2*pause, mostPause) {
		began := e.Now()
		err := e.runScheduler(ctx)
		if ctx.Err() != nil {
			return
		}
		if e.Now().Sub(began) > mostPause {
			pause = e.RetryAfter
		}
		e.batchScheduler.mu.Lock()
		e.batchScheduler.lacking = err.Error()
		e.batchScheduler.mu.Unlock()
		e.dedup.warn("sched_ext", "batch pods are idle in the kernel's fair class instead of a scheduler of their own", err)
		e.requestRound() // which reports it
		sleep.For(ctx, pause)
	}
}

// runScheduler runs the scheduler until it ends or the context does. The error is not nil unless the
// context ends.
func (e *engine) runScheduler(ctx context.Context) (err error) {
	b := &e.batchScheduler
	if why := scx.Lacking(); why != "" {
		return errors.New(why)
	}
	s, err := scx.Load(scx.Options{MaxWait: e.BatchMaxWait})
	if err != nil {
		var verifier *ebpf.VerifierError
		if errors.As(err, &verifier) {
			e.Log.Warn("the kernel's verifier rejects the scheduler for batch pods",
				"log", strings.Join(verifier.Log[max(0, len(verifier.Log)-verifierLines):], "\n"))
		}
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.Attach(); err != nil {
		return err
	}
	gap, known := takeGap(e.RunDir)
	e.Log.Info("batch pods have a scheduler of their own", "name", s.Name(), "gap", gap)
	b.mu.Lock()
	b.running, b.lacking = s, ""
	b.rescue.Reset()
	if known {
		b.gap = gap
	}
	b.mu.Unlock()
	e.dedup.clear("sched_ext")
	e.requestRound()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.running = nil
		if ctx.Err() != nil { // the next agent goes on
			err = errors.Join(err, keepEnd(e.RunDir))
		}
	}()
	var machine *topology.Machine
	for ctx.Err() == nil {
		if why, has := s.Ended(); has {
			b.mu.Lock()
			b.ended++
			b.mu.Unlock()
			return fmt.Errorf("the kernel has ended the scheduler: %s", why)
		}
		e.mu.Lock()
		now, holding := e.topology, e.stats.holding
		batch, others := e.status.Batch.Pods, e.status.Batch.Others
		e.mu.Unlock()
		if now != nil && now != machine {
			if err := s.SetMachine(now); err != nil {
				return err
			}
			machine = now
		}
		if !holding {
			e.dedup.warnOrClear("turn over", "some threads of batch pods are idle in the fair class", e.turnOver(s, batch, others))
		}
		sleep.For(ctx, turnOverEvery)
	}
	return nil
}

// turnOver gives the scheduler the threads of batch pods, and takes those of others from it.
func (e *engine) turnOver(s *scx.Scheduler, batch []control.BatchPod, others []string) error {
	b, groups := &e.batchScheduler, e.kernel.groups
	var pods []scx.Pod
	byGroup := map[uint64]control.BatchPod{}
	for _, pod := range batch {
		id, err := groups.Inode(cgroup.CPU, pod.Path)
		if err != nil {
			continue // it has ended
		}
		byGroup[id] = pod
		pods = append(pods, scx.Pod{Group: id, Weight: int(pod.Request / 10)})
	}
	errPods := s.SetPods(pods)
	stats, errStats := s.Stats()
	waiting := map[string]time.Duration{}
	for id, pod := range byGroup {
		waiting[pod.Path] = stats.Pods[id].Waiting
	}
	b.mu.Lock()
	b.stats, b.pods = stats, byGroup
	inside, outside := b.rescue.Step(e.Now(), waiting)
	b.mu.Unlock()
	_, errOver := scx.TurnOver(groups, inside)
	return errors.Join(errPods, errStats, errOver, scx.TurnBack(groups, slices.Concat(others, outside)))
}

// turnAllBack takes the threads of all pods from a scheduler for batch work. It reports whether the pods
// were known.
func (e *engine) turnAllBack() (done bool) {
	e.mu.Lock()
	rounds, holding := e.stats.rounds, e.stats.holding
	batch, paths := e.status.Batch.Pods, slices.Clone(e.status.Batch.Others)
	e.mu.Unlock()
	if rounds == 0 || holding {
		return false
	}
	for _, pod := range batch {
		paths = append(paths, pod.Path)
	}
	e.dedup.warnOrClear("turn over", "some threads have the policy SCHED_EXT of an earlier agent", scx.TurnBack(e.kernel.groups, paths))
	return true
}

// turnOverStarting gives the scheduler the threads of a pod's starting container, because what they start
// has their policy. mu must be locked.
func (e *engine) turnOverStarting() {
	b := &e.batchScheduler
	b.mu.Lock()
	running := b.running != nil
	var paths []string
	for _, pod := range e.status.Batch.Pods {
		if !b.rescue.IsOutside(pod.Path) {
			paths = append(paths, pod.Path)
		}
	}
	b.mu.Unlock()
	if !running || e.stats.holding {
		return
	}
	_, err := scx.TurnOver(e.kernel.groups, paths)
	e.dedup.warnOrClear("turn over", "some threads of batch pods are idle in the fair class", err)
}

// endFile contains when an agent ended its scheduler, so that the next one knows for how long there was
// none.
func endFile(runDir string) string { return filepath.Join(runDir, "batch-scheduler-end") }

func sinceBoot() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(err) // every kernel has this clock
	}
	return time.Duration(ts.Nano())
}

func keepEnd(runDir string) error {
	text := strconv.FormatInt(int64(sinceBoot()), 10) + "\n"
	return atomicfile.Write(endFile(runDir), []byte(text), atomicfile.Options{Perm: 0o600, Suffix: ".new"})
}

// takeGap returns for how long no agent has run a scheduler, if the last one has kept that.
func takeGap(runDir string) (gap time.Duration, known bool) {
	text, err := os.ReadFile(endFile(runDir))
	if err != nil {
		return 0, false
	}
	if err := os.Remove(endFile(runDir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, false
	}
	end, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	gap = sinceBoot() - time.Duration(end)
	return gap, err == nil && gap >= 0
}

// collect sends the metrics of the scheduler.
func (b *batchScheduler) collect(out chan<- prometheus.Metric) {
	b.mu.Lock()
	defer b.mu.Unlock()
	gauge(out, "batch_scheduler_running", "1 while the kernel runs the scheduler for batch pods.")(oneIf(b.running != nil))
	counter(out, "batch_scheduler_ended_total", "How often the kernel has ended the scheduler.")(float64(b.ended))
	gauge(out, "batch_scheduler_gap_seconds", "For how long there was no scheduler when the agent was last replaced.")(b.gap.Seconds())
	counter(out, "batch_pods_starved_total", "How often a batch pod was given to the fair class because other pods left it no CPU.")(float64(b.rescue.Count))
	if b.running == nil {
		return
	}
	gauge(out, "batch_queued_threads", "Threads of batch pods that wait for a CPU.")(float64(b.stats.Queued))
	counter(out, "batch_expelled_total", "How often batch work was interrupted because other work began to run on its core.")(float64(b.stats.Expelled))
	counter(out, "batch_yielded_total", "How often batch work gave up a CPU because other work waited elsewhere.")(float64(b.stats.Yielded))
	counter(out, "batch_overdrawn_cpu_seconds_total", "CPU time of threads that had waited too long, in spite of the budget and of other work on the core.")(b.stats.Overdrawn.Seconds())
	used := counter(out, "batch_pod_cpu_seconds_total", "CPU time of a batch pod in its scheduler.", "namespace", "pod")
	waited := counter(out, "batch_pod_run_delay_seconds_total", "How long threads of a batch pod waited for CPUs, before they ran.", "namespace", "pod")
	waiting := gauge(out, "batch_pod_waiting_seconds", "For how long the thread of a batch pod waits that has waited longest.", "namespace", "pod")
	overdue := counter(out, "batch_pod_overdue_total", "How often a thread of a batch pod ran because it had waited for --batch-max-wait.", "namespace", "pod")
	for id, pod := range b.pods {
		stat, labels := b.stats.Pods[id], []string{pod.Namespace, pod.Name}
		used(stat.Used.Seconds(), labels...)
		waited(stat.Waited.Seconds(), labels...)
		waiting(stat.Waiting.Seconds(), labels...)
		overdue(float64(stat.Overdue), labels...)
	}
}
