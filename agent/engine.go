package agent

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/sampler"
)

// engine runs the state machine on a kernel. Its methods may be called by several
// goroutines; rounds and the runtime's requests take turns.
type engine struct {
	log    *slog.Logger
	now    func() time.Time
	dedup  *logDedup
	wake   chan struct{}        // something has changed
	events func(control.Notice) // where users see them
	report func(control.Report) // after each decision
	// askKubelet is called once the kubelet has to be asked for its static pods.
	askKubelet func()
	asksStatic bool         // it has been called
	looped     atomic.Int64 // when the last round ended, in Unix nanoseconds
	// worked is when the last round ended that was not left to the next one, 0 before the
	// first. One that had to wait for the kubelet or the API server counts, and so does one
	// that failed and says so.
	worked atomic.Int64

	mu      sync.Mutex
	kernel  *kernel
	control *control.Control
	// pods lists the pods of the node, nil while they are not known.
	pods func() []*corev1.Pod
	load map[cpuset.CPU]cpuTimes
	used map[string]cpuTime // by group
	// times are the CPUs' at the last tick.
	times   map[cpuset.CPU]cpuTimes
	timesAt time.Time
	began   time.Time        // ticks are counted from here
	sampler *sampler.Sampler // nil: containers are not sampled
	meters  meters           // with a lock of its own
	figures figures
	health  string
	asked   uint64 // how often the runtime has
	stale   int    // rounds since the last one that was not left to the next
}

// figures are what metrics are made of.
type figures struct {
	summary control.Summary
	holding bool
	rounds  uint64
	foreign map[control.Field]uint64 // put back
	left    map[control.Field]uint64 // to others
	failed  int                      // groups
	runtime bool
	rivals  uint64 // containers that another NRI plugin sets, too
}

func newEngine(o Options, k *kernel) *engine {
	e := &engine{
		log: o.Log, now: o.Now, dedup: newLogDedup(o.Now), wake: make(chan struct{}, 1),
		events: func(control.Notice) {}, report: func(control.Report) {},
		askKubelet: func() {}, kernel: k, control: control.New(o.Config), pods: func() []*corev1.Pod { return nil },
		used: map[string]cpuTime{}, figures: figures{foreign: map[control.Field]uint64{}, left: map[control.Field]uint64{}},
		health: nodetopology.AgentHealthy, began: o.Now(),
	}
	e.looped.Store(o.Now().UnixNano())
	return e
}

// poke asks for a round soon.
func (e *engine) poke() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// loop does rounds until the context ends.
func (e *engine) loop(ctx context.Context, period, minInterval time.Duration, observe func(time.Duration)) {
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
		observe(time.Since(begun))
		e.looped.Store(e.now().UnixNano())
		timer.Reset(e.next(period))
		if !sleep.For(ctx, minInterval) {
			return
		}
	}
}

// waitingEvery is how often it is looked whether changed annotations, which wait until
// budgets pay for them, need not wait any longer.
const waitingEvery = time.Second

// next is the time to the next round when nothing seems to change.
func (e *engine) next(period time.Duration) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.control.Waiting()) > 0 {
		return min(period, waitingEvery)
	}
	return period
}

// mostStale is how many rounds in a row may be left to the next one. The runtime waits
// for the one after these.
const mostStale = 3

// round looks at everything and puts right what differs. The groups are read without
// the lock, so that the runtime does not wait for that; when it has asked meanwhile, what
// was read may be older than what is known, and the round is left to the next one.
func (e *engine) round() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lookAtMachine()
	observed, err := e.observe()
	if err != nil {
		e.unhealthy("groups", err)
		e.figures.holding = true
		e.show(e.control.Unable(err))
		e.worked.Store(e.now().UnixNano())
		return
	}
	if !observed {
		e.stale++
		e.poke()
		return
	}
	e.stale = 0
	e.dedup.clear("groups")
	e.health = nodetopology.AgentHealthy
	e.decide()
	e.figures.rounds++
	e.worked.Store(e.now().UnixNano())
}

// lookAtMachine reads the machine where it has changed.
func (e *engine) lookAtMachine() {
	m, err := e.kernel.machine()
	switch {
	case err != nil:
		e.unhealthy("machine", err)
	case m != nil:
		e.dedup.clear("machine")
		e.log.Info("read the machine", "onlineCPUs", m.Online().String(), "numaNodes", len(m.NUMANodes))
		e.control.SetMachine(m)
	}
}

// unhealthy reports that the agent cannot do its work.
func (e *engine) unhealthy(about string, err error) {
	e.health = err.Error()
	e.dedup.warn(e.log, about, "cannot enforce anything", err)
}

// observe reads the groups, without the lock that it is called with, and reports whether
// what it read is still so.
func (e *engine) observe() (observed bool, err error) {
	e.learnPods()
	if e.control.Kubelet() == nil {
		return true, nil // where its groups are is not known either
	}
	if err := e.kernel.findNaming(e.control.Kubelet().CgroupRoot); err != nil {
		return false, err
	}
	groups, naming, known, asked := e.kernel.groups, e.kernel.naming, e.control.Known(), e.asked
	patient := e.stale < mostStale
	if patient {
		e.mu.Unlock()
	}
	v, partial, err := view(groups, naming, known)
	groups.CloseUnused() // those of groups that have gone
	if patient {
		e.mu.Lock()
	}
	if err != nil {
		return false, err
	}
	if err := groups.CheckWritable(); err != nil {
		return false, err
	}
	e.dedup.warnOrClear(e.log, "reading", "cannot read some control groups; they are left alone", partial)
	if e.asked != asked {
		return false, nil
	}
	e.control.Observe(v)
	return true, nil
}

func (e *engine) learnPods() {
	if pods := e.pods(); pods != nil {
		e.control.SetPods(pods)
		asked := e.asksStatic
		if e.asksStatic = e.control.AwaitsStaticPods(); e.asksStatic && !asked {
			e.askKubelet()
		}
	}
}

// decide has the state machine decide on what it knows, and does what it says. The
// lock must be held.
func (e *engine) decide() {
	e.learnPods()
	for _, group := range e.control.Waiting() {
		if stat, err := e.kernel.groups.Stat(group); err == nil { // else it has ended, or the round says what is wrong
			e.control.Used(group, stat.Usage)
		}
	}
	actions := e.control.Decide(e.now())
	e.figures.holding = actions.Hold != ""
	if actions.Hold != "" {
		e.dedup.info(e.log, "hold", "nothing is changed for now: "+actions.Hold)
		e.report(e.control.Report())
		return
	}
	e.dedup.clear("hold")
	for _, f := range actions.Foreign {
		count := e.figures.foreign
		if f.Left {
			count = e.figures.left
		}
		count[f.Field]++
		e.dedup.info(e.log, "foreign "+f.Path+" "+string(f.Field), f.String())
	}
	result := actions.Carry(e.kernel.groups.Apply)
	e.control.Applied(result)
	if groups := e.meters.set(e.control.Limited()); e.sampler != nil {
		e.sampler.Set(groups)
	}
	e.logResult(result)
	e.show(e.control.Report())
}

// show tells users how things are.
func (e *engine) show(r control.Report) {
	e.figures.summary = r.Summary
	for _, n := range r.Events {
		e.log.Warn(n.Message, "reason", n.Reason)
		e.events(n)
	}
	e.report(r)
}

func (e *engine) logResult(r control.Result) {
	for _, w := range r.Written {
		e.log.Debug("wrote", "group", w.Path, "file", string(w.File), "value", w.Value)
	}
	e.figures.failed = 0
	for path, err := range r.Failed {
		if errors.Is(err, cgroup.ErrGone) {
			continue // it ended meanwhile
		}
		e.figures.failed++
		e.dedup.warn(e.log, "write "+path, "cannot give a control group what it should have", err)
	}
}

// setKubelet takes in the kubelet's configuration.
func (e *engine) setKubelet(k control.Kubelet) (changed bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if before := e.control.Kubelet(); before != nil && *before == k {
		return false
	}
	e.control.SetKubelet(k)
	e.poke()
	return true
}

// awaitsStaticPods reports whether the kubelet has to be asked for its static pods.
func (e *engine) awaitsStaticPods() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.control.AwaitsStaticPods()
}

// setStaticPods takes in the kubelet's static pods.
func (e *engine) setStaticPods(pods map[ledger.PodID]types.NamespacedName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.control.SetStaticPods(pods)
	e.poke()
}

func (e *engine) setNode(n control.Node) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.control.SetNode(n)
}

// sortPods brings pods into an order of their own.
func sortPods(pods []*corev1.Pod) []*corev1.Pod {
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(string(a.UID), string(b.UID)) })
	return pods
}
