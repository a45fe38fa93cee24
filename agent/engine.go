package agent

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/agent/batch"
	"pinfold.dev/pinfold/agent/claims"
	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
)

// engine connects the state machine with the kernel: everything that decides calls decide. It
// passes what follows from a decision to those that carry it out, measure and report, which are
// values with locks of their own.
type engine struct {
	Options
	kernel    *kernel
	wake      chan struct{} // requests a round
	node      nodeState
	reports   *reports
	meters    meters
	delays    *delays     // nil if they are not traced
	waits     *contention // nil if they are not sampled
	cookies   *batch.Cookies
	scheduler *batch.Scheduler
	claims    *claims.Driver

	mu      sync.Mutex // protects the state machine, the following fields, and writes of settings
	control *control.Control
	status  control.Status   // after the last decision
	kubelet *control.Kubelet // nil until it is known
	unsaved error            // why what is allocated could not be saved, or nil
	saving  bool
	saved   *sync.Cond // of mu: what is allocated was saved, or could not be
	pods    podSource
	force   force // as saved in the run directory
	// changes counts decisions, and changes by others than rounds, after which the observation of a round
	// may be outdated. A round whose observation spans one is postponed.
	changes uint64
}

// podSource is where the engine finds the pods of the node.
type podSource struct {
	// list returns nil until the pods are known.
	list func() []*corev1.Pod
	// asked is set if the kubelet is to be asked for its static pods, and has not answered.
	asked bool
}

func newEngine(o Options, k *kernel) *engine {
	e := &engine{
		Options: o, kernel: k, control: control.New(o.Config), wake: make(chan struct{}, 1), reports: newReports(o),
		pods:    podSource{list: func() []*corev1.Pod { return nil }},
		cookies: &batch.Cookies{Groups: k.groups, RunDir: o.RunDir},
	}
	e.saved = sync.NewCond(&e.mu)
	e.node.setHealth(e.health())
	e.scheduler = batch.NewScheduler(batch.Options{Wanted: o.Priority.Wants(colocation.SchedExt) && !o.Observe, MaxWait: o.BatchMaxWait,
		RetryAfter: o.RetryAfter, Groups: k.groups, RunDir: o.RunDir, Now: o.Now, Log: o.Log, Dedup: e.reports.dedup,
		Node: e.batchNode, Changed: e.requestRound})
	e.claims = newClaims(e)
	if o.TraceShare > 0 {
		e.delays = newDelays(k.groups, o.TraceShare, func(err error) {
			e.reports.dedup.Warn("unlisted", "the delays of some groups in containers are not traced", err)
		})
	}
	if o.Contention {
		e.waits = newContention(k.groups, o.Log)
	}
	return e
}

// health returns what the node says of an agent that works.
func (e *engine) health() string {
	if e.Observe {
		return nodetopology.AgentObserves
	}
	return nodetopology.AgentHealthy
}

// ready returns an error while decisions are not enforced, or claims are to be served and are not.
func (e *engine) ready() error {
	if err := e.reports.ready(); err != nil || e.Devices == "" {
		return err
	}
	return e.claims.Ready()
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

// with calls f with the state machine, under the lock.
func (e *engine) with(f func(*control.Control)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f(e.control)
}

// step passes an event to the state machine.
func (e *engine) step(event control.Event) { e.with(func(c *control.Control) { c.Step(event) }) }

// update calls f under the lock, and makes a round that is reading cgroups meanwhile start again.
func (e *engine) update(f func()) {
	e.with(func(*control.Control) {
		e.changes++
		f()
	})
}

// decide does what is to be done next, until settings are written, and passes what follows to those
// that do the rest. mu must be locked, and is unlocked while it waits for the disk or for systemd. If it
// is asked about a container, the status has its settings.
func (e *engine) decide(asked ...nodeplan.Ref) (result control.Result) {
	e.updatePods()
	defer e.kernel.units.pause()()
	for decided := false; !decided; {
		ready := e.control.Ready(e.Now(), asked...)
		if call := e.kernel.units.unanswered(ready.Changes); call != nil {
			e.mu.Unlock()
			call.wait()
			e.mu.Lock()
			continue // much may have changed
		}
		result, decided = control.Result{Usage: e.usedBy(ready.Read)}, ready.Writes != nil
		switch {
		case decided:
			result = e.enforce(*ready.Writes)
		case ready.Wait:
			e.saved.Wait()
		case ready.Save != nil:
			result.Saved = e.save(ready.Save)
		}
		e.status = e.control.Advance(ready, result)
	}
	e.meters.set(e.status.Limited())
	if e.delays != nil {
		e.delays.set(e.status.Containers)
	}
	if e.waits != nil {
		e.waits.set(e.status.Containers)
	}
	e.reports.publish(e.status.Report)
	return result
}

// usedBy returns the CPU time that groups have used. Those that have ended are missing; of others the next
// round reports the error.
func (e *engine) usedBy(groups []string) map[string]time.Duration {
	all := map[string]time.Duration{}
	for _, group := range groups {
		if stat, err := cgroupstat.Read(e.kernel.groups, group); err == nil {
			all[group] = stat.Usage
		}
	}
	return all
}

// enforce carries out a decision. mu must be locked.
func (e *engine) enforce(decision control.Decision) control.Result {
	e.changes++
	e.reports.hold(decision.Hold)
	e.setInForce(decision.InForce)
	e.kernel.units.raises(decision.Raised)
	result := decision.Execute(e.kernel)
	e.reports.logChanges(decision, result)
	return result
}

// save saves what is allocated to pods, and has it published. It unlocks mu meanwhile: a container that
// needs nothing of it is created without waiting for the disk.
func (e *engine) save(all api.Allocations) error {
	e.saving = true
	e.mu.Unlock()
	err := saveAllocations(e.RunDir, all)
	e.mu.Lock()
	e.saving, e.unsaved = false, err
	e.reports.dedup.WarnOrClear("given", "pods get no CPUs of their own", err)
	e.saved.Broadcast()
	if err == nil {
		e.reports.refresh()
		e.claims.Changed()
		e.requestRound() // other pods may wait for what was decided
	}
	return err
}

// setInForce saves whether settings of this agent are in force, for the next agent. They are as
// long as systemd may write them. mu must be locked.
func (e *engine) setInForce(now bool) {
	if now == e.force.now || !now && e.kernel.units.tells() {
		return
	}
	next := force{now, true}
	err := saveForce(e.RunDir, next)
	e.reports.dedup.WarnOrClear("force", "an agent that starts after this one may leave its settings in force", err)
	if err == nil {
		e.force = next
	}
}

// recover takes over what earlier agents have allocated and set.
func (e *engine) recover() error {
	allocations, unreadable := savedAllocations(&e.Options)
	e.force, _ = savedForce(e.RunDir)
	e.step(control.Event{Allocations: allocations, Unreadable: unreadable, InForce: e.force.now})
	if e.force.now {
		return nil
	}
	return saveForce(e.RunDir, e.force)
}

// updatePods passes the pods to the state machine. mu must be locked.
func (e *engine) updatePods() {
	if pods := e.pods.list(); pods != nil {
		e.control.Step(control.Event{Pods: pods})
		before := e.pods.asked
		if e.pods.asked = e.control.Pods.NeedsStaticPods(); e.pods.asked && !before {
			e.reports.refresh()
		}
	}
}

// addGroup reads a new cgroup of a pod or container and passes it to the state machine. It reports
// whether the cgroup could be read. mu must be locked.
func (e *engine) addGroup(cgroupsPath string) bool {
	group, where, ok := e.kernel.locate(cgroupsPath)
	if !ok {
		return false
	}
	settings, err := e.kernel.groups.ReadParts(group, cgroup.Parts{CPUs: true, Bandwidth: true,
		Idle: where.Container == "", Partition: e.Partitioned()})
	if err != nil {
		return false // the next round reads it or reports the error
	}
	e.control.Step(control.Event{Group: &control.Group{Path: group, Where: where, Settings: settings}})
	return true
}

// separate gives the threads of batch pods their core-scheduling cookie. mu must be locked.
func (e *engine) separate() {
	if e.status.Hold == "" { // else the pods are not known
		err := e.cookies.Separate(e.status.Batch.Separate, e.status.Batch.Together)
		e.reports.dedup.WarnOrClear("cookies", "some batch pods may run on the cores of other pods", err)
	}
}

// batchNode returns what the scheduler for batch pods needs to know.
func (e *engine) batchNode() batch.Node {
	known := e.reports.ready() == nil
	e.mu.Lock()
	defer e.mu.Unlock()
	return batch.Node{Machine: e.node.machine.Load(), Known: known, Pods: e.status.Batch.Pods, Others: e.status.Batch.Others}
}

// setKubelet sets the kubelet's configuration, and reports whether it has changed.
func (e *engine) setKubelet(k control.Kubelet) (changed bool) {
	e.with(func(c *control.Control) {
		if changed = e.kubelet == nil || *e.kubelet != k; changed {
			e.kubelet = &k
			c.Step(control.Event{Kubelet: &k})
			e.claims.Changed()
			e.requestRound()
		}
	})
	return changed
}
