package agent

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/agent/batch"
	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/internal/logdedup"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
	"pinfold.dev/pinfold/linux/priority"
	"pinfold.dev/pinfold/linux/sampler"
)

// engine connects the state machine with the kernel. Rounds, ticks and the runtime's requests may
// run concurrently; mu serializes them.
type engine struct {
	Options
	dedup  *logdedup.Log
	wake   chan struct{}        // requests a round
	events func(control.Notice) // creates an event
	report func(control.Report) // receives the report of each decision
	// publishSoon requests that the Node object is brought up to date.
	publishSoon func()
	// askKubelet requests that the kubelet is asked for its static pods.
	askKubelet func()
	// pressure reads the pressure of a container's cgroup.
	pressure func(group string) (cgroupstat.Pressure, error)
	// lastLoop and lastRound are the times, in Unix nanoseconds, at which the last iteration of
	// loop and the last round that was not postponed ended. A round that failed, or that waits for
	// the kubelet or the API server, counts. lastRound is 0 before the first.
	lastLoop, lastRound atomic.Int64

	mu      sync.Mutex
	kernel  *kernel
	control *control.Control
	status  control.Status // after the last decision
	// pods lists the pods of the node. It returns nil until they are known.
	pods        func() []*corev1.Pod
	needsStatic bool // askKubelet has been called and not been answered

	load       map[cpuset.CPU]cpuTimes // at the last sample for core sets
	used       map[string]groupTime    // at the last sample for core sets, by path
	tickLoad   map[cpuset.CPU]cpuTimes // at the last tick
	tickUsed   cgroupstat.Meter        // of pods with idle priority, since the last tick
	tickedAt   time.Time
	batchUsage *batch.Usage
	// onlineWait observes, in seconds, the longest time that an online container waited in a tick.
	onlineWait     prometheus.Histogram
	cookies        *batch.Cookies
	topology       *topology.Machine // nil until it was read
	batchScheduler *batch.Scheduler  // has its own lock
	began          time.Time         // origin of the ticks' time
	sampler        *sampler.Sampler  // nil if containers are not sampled
	meters         meters            // has its own lock
	delays         *delays           // nil if they are not traced; has its own lock
	stats          stats
	health         string
	// changes counts changes of the state machine's input other than by rounds. A round whose
	// observation spans one is postponed. postponed is the number of such rounds in a row.
	changes   uint64
	postponed int
}

// stats are the source of metrics.
type stats struct {
	summary      control.Summary
	holding      bool
	rounds       uint64
	undone, left map[control.Field]uint64 // foreign changes
	failed       int                      // cgroups
	connected    bool                     // to the container runtime
	nriConflicts uint64                   // containers that another NRI plugin sets too
}

func newEngine(o Options, k *kernel) *engine {
	e := &engine{
		pressure: func(group string) (cgroupstat.Pressure, error) { return cgroupstat.ReadPressure(k.groups, group) },
		Options:  o, kernel: k, control: control.New(o.Config), dedup: logdedup.New(o.Log, o.Now), wake: make(chan struct{}, 1),
		events: func(control.Notice) {}, report: func(control.Report) {}, publishSoon: func() {}, askKubelet: func() {},
		pods: func() []*corev1.Pod { return nil }, used: map[string]groupTime{},
		stats:  stats{undone: map[control.Field]uint64{}, left: map[control.Field]uint64{}},
		health: nodetopology.AgentHealthy, began: o.Now(),
		onlineWait: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "pinfold_online_wait_seconds",
			Help:    "Longest time that an online container (class LS) waited for CPUs in 100 ms, without those that were throttled.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 11)}),
	}
	e.batchUsage = &batch.Usage{Groups: k.groups, Dedup: e.dedup, Waits: o.Batch.Objective > 0, Tick: tickEvery, Traced: e.traced,
		Pressure: func(group string) (cgroupstat.Pressure, error) { return e.pressure(group) }}
	e.cookies = &batch.Cookies{Groups: k.groups, RunDir: o.RunDir}
	e.batchScheduler = batch.NewScheduler(batch.Options{Wanted: o.Priority.Wants(colocation.SchedExt), MaxWait: o.BatchMaxWait,
		RetryAfter: o.RetryAfter, Groups: k.groups, RunDir: o.RunDir, Now: o.Now, Log: o.Log, Dedup: e.dedup,
		Node: e.batchNode, Changed: e.requestRound})
	if o.TraceShare > 0 {
		e.delays = newDelays(k.groups, o.TraceShare)
	}
	e.lastLoop.Store(o.Now().UnixNano())
	return e
}

// requestRound makes a round start soon. It does not wait.
func (e *engine) requestRound() { signal(e.wake) }

// signal sends to a channel with a buffer of one, unless a value is already waiting in it.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// loop runs rounds until the context ends. observe receives the duration of each.
func (e *engine) loop(ctx context.Context, observe func(time.Duration)) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.wake:
		case <-timer.C:
		}
		begun := time.Now()
		e.round()
		took := time.Since(begun)
		observe(took)
		e.lastLoop.Store(e.Now().UnixNano())
		timer.Reset(e.untilNextRound())
		if !sleep.For(ctx, max(e.MinInterval, min(restAfter*took, maxRest))) {
			return
		}
	}
}

// A round of a node with thousands of containers takes long, and their events request the next one
// at once. The agent rests after each for restAfter times as long, at most maxRest, so that rounds
// take a fifth of a CPU.
const (
	restAfter = 4
	maxRest   = 2 * time.Second
)

// waitingEvery is the interval of rounds while changed annotations wait for write budgets.
const waitingEvery = time.Second

func (e *engine) untilNextRound() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.control.Waiting()) > 0 {
		return min(e.Period, waitingEvery)
	}
	return e.Period
}

// maxPostponed is the number of rounds in a row that may be postponed. The next one reads the
// cgroups under the lock, which the runtime waits for.
const maxPostponed = 3

// round observes everything and corrects what differs. It reads the cgroups without the lock, so
// that the runtime need not wait. If the state has changed meanwhile, the observation may be older
// than what is known, and the round is postponed.
func (e *engine) round() {
	e.mu.Lock()
	defer e.mu.Unlock()
	machineErr := e.readMachine()
	observed, err := e.observe()
	if err != nil {
		e.unhealthy("groups", err)
		e.stats.holding = true
		e.publish(e.control.Failed(err))
		e.lastRound.Store(e.Now().UnixNano())
		return
	}
	if !observed {
		e.postponed++
		e.requestRound()
		return
	}
	e.postponed = 0
	e.dedup.Clear("groups")
	if machineErr == nil {
		e.health = nodetopology.AgentHealthy
	}
	e.decide()
	e.separate()
	e.stats.rounds++
	e.lastRound.Store(e.Now().UnixNano())
}

// readMachine reads the machine's topology if it has changed. After an error the agent goes on with
// the last one.
func (e *engine) readMachine() error {
	m, notes, err := e.kernel.machine()
	if err != nil {
		e.unhealthy("machine", err)
		return err
	}
	e.dedup.Clear("machine")
	if m != nil {
		e.Log.Info("read the machine", "onlineCPUs", m.Online().String(), "numaNodes", len(m.NUMANodes))
		e.control.SetMachine(m)
		e.control.SetMachineNotes(notes)
		e.topology = m
	}
	return nil
}

// unhealthy makes the error the agent's health, for which the scheduler places no static pod on the
// node.
func (e *engine) unhealthy(about string, err error) {
	e.health = err.Error()
	e.dedup.Warn(about, "the node takes no new static pods", err)
}

// observe reads the cgroups. It unlocks mu meanwhile, and reports whether the state has not changed
// by then.
func (e *engine) observe() (observed bool, err error) {
	e.updatePods()
	if e.control.Kubelet() == nil {
		return true, nil // the location of its cgroups is not known either
	}
	if err := e.kernel.findNaming(e.control.Kubelet().CgroupRoot); err != nil {
		return false, err
	}
	groups, naming, known, changes := e.kernel.groups, e.kernel.naming, e.control.KnownIDs(), e.changes
	unlock := e.postponed < maxPostponed
	if unlock {
		e.mu.Unlock()
	}
	v, partial, err := view(groups, naming, known, e.Partitioned())
	groups.CloseUnused() // files of cgroups that have ended
	if tier, found := v.Settings[naming.Tier(nodeplan.BestEffort)]; found && !e.Priority.IsNone() {
		v.Lacking = priority.Lacking(e.kernel.root, groups, tier, priority.CheckCores())
		if why := e.batchScheduler.Status().Lacking; why != "" {
			v.Lacking[colocation.SchedExt] = why
		}
	}
	if unlock {
		e.mu.Lock()
	}
	if err != nil {
		return false, err
	}
	if err := groups.CheckWritable(); err != nil {
		return false, err
	}
	e.dedup.WarnOrClear("reading", "cannot read some control groups; they are left alone", partial)
	if e.changes != changes {
		return false, nil
	}
	e.control.Observe(v)
	return true, nil
}

func (e *engine) updatePods() {
	if pods := e.pods(); pods != nil {
		e.control.SetPods(pods)
		before := e.needsStatic
		if e.needsStatic = e.control.NeedsStaticPods(); e.needsStatic && !before {
			e.askKubelet()
		}
	}
}

// decide lets the state machine decide, carries out the decision, and passes what follows from it
// to those that do the rest. mu must be locked.
func (e *engine) decide() {
	e.updatePods()
	for _, group := range e.control.Waiting() {
		if stat, err := cgroupstat.Read(e.kernel.groups, group); err == nil { // else it has ended, or the next round reports the error
			e.control.SetGroupUsage(group, stat.Usage)
		}
	}
	decision := e.control.Decide(e.Now())
	if e.stats.holding = decision.Hold != ""; e.stats.holding {
		e.dedup.Info("hold", "nothing is changed for now: "+decision.Hold)
		e.status = e.control.Applied(control.Result{})
		e.report(e.status.Report)
		return
	}
	e.dedup.Clear("hold")
	e.logForeign(decision.Foreign)
	_ = e.kernel.tellSystemd(nil, decision.Raised) // what it could not be told before
	result := decision.Execute(writer{e.kernel, decision.Raised})
	e.dedup.WarnOrClear("systemd", "a reload of systemd undoes settings, until the round after it", e.kernel.systemdErr)
	e.logResult(result)
	e.status = e.control.Applied(result)
	if groups := e.meters.set(e.status.Limited()); e.sampler != nil {
		e.sampler.Set(groups)
	}
	if e.delays != nil {
		e.delays.set(e.status.Containers)
	}
	e.publish(e.status.Report)
}

// logForeign logs and counts the changes by other writers.
func (e *engine) logForeign(changes []control.Foreign) {
	for _, f := range changes {
		count := e.stats.undone
		if f.Left {
			count = e.stats.left
		}
		count[f.Field]++
		e.dedup.Info("foreign "+f.Path+" "+string(f.Field), f.String())
	}
}

// separate gives the threads of batch pods their core-scheduling cookie. mu must be locked.
func (e *engine) separate() {
	if !e.stats.holding { // else the pods are not known
		err := e.cookies.Separate(e.status.Batch.Separate, e.status.Batch.Together)
		e.dedup.WarnOrClear("cookies", "some batch pods may run on the cores of other pods", err)
	}
}

// batchNode returns what the scheduler for batch pods needs to know.
func (e *engine) batchNode() batch.Node {
	e.mu.Lock()
	defer e.mu.Unlock()
	return batch.Node{Machine: e.topology, Known: e.stats.rounds > 0 && !e.stats.holding, Pods: e.status.Batch.Pods, Others: e.status.Batch.Others}
}

// publish passes a report on to metrics, log, events and the node's condition.
func (e *engine) publish(r control.Report) {
	e.stats.summary = r.Summary
	for _, n := range r.Events {
		e.Log.Warn(n.Message, "reason", n.Reason)
		e.events(n)
	}
	e.report(r)
}

func (e *engine) logResult(r control.Result) {
	for _, w := range r.Written {
		e.Log.Debug("wrote", "group", w.Path, "file", string(w.File), "value", w.Value)
	}
	e.stats.failed = 0
	for path, err := range r.Failed {
		if errors.Is(err, cgroup.ErrGone) {
			continue // it has ended meanwhile
		}
		e.stats.failed++
		e.dedup.Warn("write "+path, "cannot apply the settings of a control group", err)
	}
}

// with calls f with the state machine, under the lock.
func (e *engine) with(f func(*control.Control)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f(e.control)
}

// setKubelet sets the kubelet's configuration, and reports whether it has changed.
func (e *engine) setKubelet(k control.Kubelet) (changed bool) {
	e.with(func(c *control.Control) {
		before := c.Kubelet()
		if changed = before == nil || *before != k; changed {
			c.SetKubelet(k)
			e.requestRound()
		}
	})
	return changed
}
