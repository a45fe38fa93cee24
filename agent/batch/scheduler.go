// Package batch does for batch pods what is more than a setting of their control groups: [Usage]
// measures what their budget depends on, [Cookies] keep their threads off the cores of others, and
// a [Scheduler] runs them in the kernel.
//
//	usage := &batch.Usage{...}
//	tick := usage.Measure(now, &status.Batch) // for control.Tick
//
//	cookies := &batch.Cookies{Groups: groups, RunDir: dir}
//	err := cookies.Separate(batch, others)
//
//	scheduler := batch.NewScheduler(batch.Options{...})
//	go scheduler.Run(ctx)
//	scheduler.SetBudget(2.5)
//
// What is to be done is decided in packages control and colocation.
package batch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/internal/atomicfile"
	"pinfold.dev/pinfold/internal/logdedup"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/scx"
)

// Options of a scheduler. All are set.
type Options struct {
	// Wanted makes Run run the scheduler. Otherwise Run takes threads from that of an earlier agent.
	Wanted     bool
	MaxWait    time.Duration // of a thread, while other work leaves CPUs
	RetryAfter time.Duration
	Groups     *cgroup.FS
	RunDir     string
	Now        func() time.Time
	Log        *slog.Logger
	Dedup      *logdedup.Log
	// Node returns what is known of the node. Changed is called when Lacking has changed.
	Node    func() Node
	Changed func()
}

// Node is what a scheduler needs to know of its node.
type Node struct {
	Machine *topology.Machine // nil until it is known
	Known   bool              // whether the pods are known
	Pods    []control.BatchPod
	Others  []string // paths of all other pods
}

// Scheduler is the scheduler for batch pods in the kernel.
type Scheduler struct {
	Options

	mu sync.Mutex // protects the following fields
	// running is nil while the kernel does not run the scheduler.
	running *scx.Scheduler
	status  Status
	pods    map[uint64]control.BatchPod // by the numbers of their groups
	rescue  colocation.Rescue           // to the fair class
}

// Status is what is known of a scheduler.
type Status struct {
	Running bool
	// Lacking is why it does not run although it is wanted, or "" if that has not been tried.
	Lacking string
	Stats   scx.Stats
	Ended   uint64        // how often the kernel has ended it
	Rescued uint64        // how often a pod was given to the fair class
	Gap     time.Duration // for which there was none when the agent was replaced
	// Pods are the batch pods, with their statistics.
	Pods []PodStatus
}

// PodStatus is a batch pod and what it has used.
type PodStatus struct {
	control.BatchPod
	scx.Stat
}

// NewScheduler returns a scheduler that does not run yet.
func NewScheduler(o Options) *Scheduler {
	return &Scheduler{Options: o, rescue: colocation.Rescue{MaxWait: o.MaxWait}}
}

// Status returns the present status.
func (s *Scheduler) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := s.status
	status.Running, status.Rescued = s.running != nil, s.rescue.Count
	for id, pod := range s.pods {
		status.Pods = append(status.Pods, PodStatus{pod, status.Stats.Pods[id]})
	}
	return status
}

// SetBudget tells the scheduler the budget of batch pods, if it runs.
func (s *Scheduler) SetBudget(budget quantity.CPUs) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		_ = s.running.SetBudget(budget) // which fails only for a scheduler that is not loaded
	}
}

// turnOverEvery is how often threads that have joined batch pods are turned over to the scheduler.
// maxPause bounds the time between attempts to load the scheduler, which doubles with each failure.
const (
	turnOverEvery = time.Second
	maxPause      = 10 * time.Minute
)

// verifierLines is how much of the verifier's log, which ends with the reason, is logged.
const verifierLines = 50

// Run runs the scheduler until the context ends. If it is not wanted, Run takes threads from it
// that an earlier agent turned over, once.
func (s *Scheduler) Run(ctx context.Context) {
	if !s.Wanted {
		for ctx.Err() == nil && !s.turnAllBack() {
			sleep.For(ctx, s.RetryAfter)
		}
		return
	}
	for pause := s.RetryAfter; ctx.Err() == nil; pause = min(2*pause, maxPause) {
		began := s.Now()
		err := s.runOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		if s.Now().Sub(began) > maxPause {
			pause = s.RetryAfter
		}
		s.mu.Lock()
		s.status.Lacking = err.Error()
		s.mu.Unlock()
		if s.Dedup.Fresh("sched_ext", err.Error()) { // a notice of control, too
			s.Log.Warn("batch pods are idle in the kernel's fair class instead of a scheduler of their own", "error", err)
		}
		s.Changed()
		sleep.For(ctx, pause)
	}
}

// runOnce runs the scheduler until it ends or the context does. The error is not nil unless the
// context ends.
func (s *Scheduler) runOnce(ctx context.Context) (err error) {
	if err := scx.Test(); err != nil {
		return err
	}
	loaded, err := scx.Load(scx.Options{MaxWait: s.MaxWait})
	if err != nil {
		var verifier *ebpf.VerifierError
		if errors.As(err, &verifier) {
			s.Log.Warn("the kernel's verifier rejects the scheduler for batch pods",
				"log", strings.Join(verifier.Log[max(0, len(verifier.Log)-verifierLines):], "\n"))
		}
		return err
	}
	defer func() { err = errors.Join(err, loaded.Close()) }()
	if err := loaded.Attach(); err != nil {
		return err
	}
	s.began(loaded)
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running = nil
		if ctx.Err() != nil { // the next agent goes on
			err = errors.Join(err, keepEnd(s.RunDir))
		}
	}()
	return s.follow(ctx, loaded)
}

// began records that the kernel runs the scheduler.
func (s *Scheduler) began(loaded *scx.Scheduler) {
	gap, known := takeGap(s.RunDir)
	s.Log.Info("batch pods have a scheduler of their own", "name", loaded.Name(), "gap", gap)
	s.mu.Lock()
	s.running, s.status.Lacking = loaded, ""
	s.rescue.Reset()
	if known {
		s.status.Gap = gap
	}
	s.mu.Unlock()
	s.Dedup.Clear("sched_ext")
	s.Changed()
}

// follow tells the scheduler about machine and pods until it ends or the context does.
func (s *Scheduler) follow(ctx context.Context, loaded *scx.Scheduler) error {
	var machine *topology.Machine
	for ctx.Err() == nil {
		if why, has := loaded.Ended(); has {
			s.mu.Lock()
			s.status.Ended++
			s.mu.Unlock()
			return fmt.Errorf("the kernel has ended the scheduler: %s", why)
		}
		node := s.Node()
		if node.Machine != nil && node.Machine != machine {
			if err := loaded.SetMachine(node.Machine); err != nil {
				return err
			}
			machine = node.Machine
		}
		if node.Known {
			s.Dedup.WarnOrClear("turn over", "some threads of batch pods are idle in the fair class", s.turnOver(loaded, node))
		}
		sleep.For(ctx, turnOverEvery)
	}
	return nil
}

// turnOver gives the scheduler the threads of batch pods, and takes those of others from it.
func (s *Scheduler) turnOver(loaded *scx.Scheduler, node Node) error {
	var pods []scx.Pod
	byGroup := map[uint64]control.BatchPod{}
	for _, pod := range node.Pods {
		id, err := s.Groups.Inode(cgroup.CPU, pod.Path)
		if err != nil {
			continue // it has ended
		}
		byGroup[id] = pod
		pods = append(pods, scx.Pod{Group: id, Weight: int(pod.Request / 10)})
	}
	errPods := loaded.SetPods(pods)
	stats, errStats := loaded.Stats()
	waiting := map[string]time.Duration{}
	for id, pod := range byGroup {
		waiting[pod.Path] = stats.Pods[id].Waiting
	}
	s.mu.Lock()
	s.status.Stats, s.pods = stats, byGroup
	inside, outside := s.rescue.Step(s.Now(), waiting)
	s.mu.Unlock()
	_, errOver := scx.TurnOver(s.Groups, inside)
	return errors.Join(errPods, errStats, errOver, scx.TurnBack(s.Groups, slices.Concat(node.Others, outside)))
}

// turnAllBack takes the threads of all pods from a scheduler for batch work. It reports whether the
// pods were known.
func (s *Scheduler) turnAllBack() (done bool) {
	node := s.Node()
	if !node.Known {
		return false
	}
	paths := slices.Clone(node.Others)
	for _, pod := range node.Pods {
		paths = append(paths, pod.Path)
	}
	s.Dedup.WarnOrClear("turn over", "some threads have the policy SCHED_EXT of an earlier agent", scx.TurnBack(s.Groups, paths))
	return true
}

// TurnOverStarting gives the scheduler, if it runs, the threads of batch pods before a container of
// one starts, because what they start has their policy.
func (s *Scheduler) TurnOverStarting(pods []control.BatchPod) {
	s.mu.Lock()
	running := s.running != nil
	var paths []string
	for _, pod := range pods {
		if !s.rescue.IsOutside(pod.Path) {
			paths = append(paths, pod.Path)
		}
	}
	s.mu.Unlock()
	if !running {
		return
	}
	_, err := scx.TurnOver(s.Groups, paths)
	s.Dedup.WarnOrClear("turn over", "some threads of batch pods are idle in the fair class", err)
}

// endFile contains when an agent ended its scheduler, so that the next one knows for how long there
// was none.
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
