package agent

import (
	"context"
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/qos"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/linux/priority"
)

// rounds observe the machine and its cgroups, and let the engine decide.
type rounds struct {
	engine *engine
	// lastLoop and lastRound are the times, in Unix nanoseconds, at which the last iteration of
	// loop and the last round that was not postponed ended. A round that failed, or that waits for
	// the kubelet or the API server, counts. lastRound is 0 before the first.
	lastLoop, lastRound atomic.Int64
	postponed           int   // rounds in a row
	partial             error // why some cgroups could not be read
}

// nodeState is what rounds know of the node besides its cgroups.
type nodeState struct {
	machine atomic.Pointer[topology.Machine] // with the CPUs that pods may not use, nil until it was read
	looked  atomic.Bool                      // at the cgroups, whether or not they could be read
	health  atomic.Pointer[string]           // of the agent
}

func (n *nodeState) setHealth(health string) { n.health.Store(&health) }

func newRounds(e *engine) *rounds {
	r := &rounds{engine: e}
	r.lastLoop.Store(e.Now().UnixNano())
	return r
}

// loop runs rounds until the context ends. observe receives the duration of each.
func (r *rounds) loop(ctx context.Context, observe func(time.Duration)) {
	e := r.engine
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
		r.round()
		e.reports.dedup.WarnOrClear("report", "pinfold-agent status lacks the last state", e.reports.save())
		took := time.Since(begun)
		observe(took)
		r.lastLoop.Store(e.Now().UnixNano())
		timer.Reset(r.untilNextRound())
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

// readCeilings lets changed ceilings apply.
func (r *rounds) readCeilings() {
	e := r.engine
	if e.ReadCeilings == nil {
		return
	}
	ceilings, err := e.ReadCeilings()
	e.reports.dedup.WarnOrClear("ceilings", "the ceilings that were read before apply", err)
	if err == nil && !reflect.DeepEqual(ceilings, e.Ceilings) {
		e.Log.Info("the ceilings have changed")
		e.Ceilings = ceilings
		e.control.Step(control.Event{Ceilings: &ceilings})
	}
}

// untilNextRound returns when the next round begins if nothing requests it.
func (r *rounds) untilNextRound() time.Duration {
	e := r.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.status.Waiting {
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
func (r *rounds) round() {
	e := r.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	r.readCeilings()
	e.control.Step(control.Event{Standing: e.reports.standing()})
	machineErr := r.readMachine()
	observed, err := r.observe()
	if err != nil {
		r.unhealthy("groups", err)
		e.node.looked.Store(true)
		e.status = e.control.Failed(err)
		e.reports.fail(e.status.Report)
		r.lastRound.Store(e.Now().UnixNano())
		return
	}
	if !observed {
		r.postponed++
		e.requestRound()
		return
	}
	r.postponed = 0
	e.node.looked.Store(true)
	e.reports.dedup.Clear("groups")
	if machineErr == nil {
		e.node.setHealth(e.health())
	}
	e.decide()
	e.separate()
	e.reports.update(func(s *stats) { s.rounds++ })
	r.lastRound.Store(e.Now().UnixNano())
}

// readMachine reads the machine's topology if it has changed. After an error the agent goes on with
// the last one.
func (r *rounds) readMachine() error {
	e := r.engine
	m, notes, err := e.kernel.machine()
	if err != nil {
		r.unhealthy("machine", err)
		return err
	}
	e.reports.dedup.Clear("machine")
	if m != nil {
		e.Log.Info("read the machine", "onlineCPUs", m.Online().String(), "numaNodes", len(m.NUMANodes))
		e.control.Step(control.Event{Machine: m, MachineNotes: notes})
		e.node.machine.Store(m)
	}
	return nil
}

// unhealthy makes the error the agent's health, for which the scheduler places no static pod on the
// node.
func (r *rounds) unhealthy(about string, err error) {
	r.engine.node.setHealth(err.Error()) // which is published
	if r.engine.reports.dedup.Fresh(about, err.Error()) {
		r.engine.Log.Warn("the node takes no new static pods", "error", err)
	}
}

// observe reads the cgroups. It unlocks mu meanwhile, and reports whether the state has not changed
// by then.
func (r *rounds) observe() (observed bool, err error) {
	e := r.engine
	e.updatePods()
	if e.kubelet == nil {
		return true, nil // the location of its cgroups is not known either
	}
	if err := e.kernel.findNaming(e.kubelet.CgroupRoot); err != nil {
		if e.kubelet.NoPodGroups {
			err = fmt.Errorf("the kubelet's cgroupsPerQOS is false: set it to true, and restart the kubelet: %w", err)
		}
		return false, err
	}
	groups, naming, known, changes := e.kernel.groups, e.kernel.naming, e.control.Pods.KnownIDs(), e.changes
	unlock := r.postponed < maxPostponed
	if unlock {
		e.mu.Unlock()
	}
	v, partial, err := view(groups, naming, known, e.Partitioned())
	groups.CloseUnused() // files of cgroups that have ended
	if tier, found := v.Settings[naming.Tier(qos.BestEffort)]; found && !e.Priority.IsNone() {
		v.Lacking = priority.Lacking(e.kernel.root, groups, tier, priority.CheckCores())
		if why := e.scheduler.Status().Lacking; why != "" {
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
	e.reports.dedup.WarnOrClear("reading", "cannot read some control groups; they are left alone", partial)
	if e.changes != changes {
		return false, nil
	}
	r.partial, v.Partial = partial, partial != nil
	e.control.Step(control.Event{Groups: &v})
	return true, nil
}

// alive returns an error if no round has ended for several periods. Rounds that fail count, because
// restarting the agent would not help.
func (r *rounds) alive() error {
	if since := r.engine.Now().Sub(time.Unix(0, r.lastLoop.Load())); since > 3*r.engine.Period+time.Minute {
		return fmt.Errorf("the last round ended %v ago", since.Round(time.Second))
	}
	return nil
}
