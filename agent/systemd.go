package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/internal/logdedup"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
	"pinfold.dev/pinfold/linux/kubepods"
	"pinfold.dev/pinfold/linux/sysfs"
	"pinfold.dev/pinfold/linux/systemd"
)

// callLimit is the default of [Options.CallLimit]. After as long a call is reported.
const callLimit = 500 * time.Millisecond

// Calls that have failed are repeated after minPause, then after twice as long, up to maxPause.
const (
	minPause = time.Second
	maxPause = 30 * time.Second
)

// flushLimit is how long [Cleanup] waits for systemd.
const flushLimit = 10 * time.Second

// Apply implements [control.Kernel]: it writes settings, after which systemd is told of them. Callers
// hold the engine's lock, have paused the calls, and have waited for one about a group to write.
func (k *kernel) Apply(wanted map[string]cgroup.Wanted) cgroup.Outcome {
	outcome := k.groups.Apply(wanted)
	if k.naming.Driver == kubepods.Systemd {
		k.units.wrote(wanted)
	}
	return outcome
}

// Effective implements [control.Kernel].
func (k *kernel) Effective(group string) (cpuset.Set, error) { return k.groups.Effective(group) }

// ThreadCPUs implements [control.Kernel]. What has ended meanwhile does not count.
func (k *kernel) ThreadCPUs(group string) (all cpuset.Set, err error) {
	pids, err := cgrouptree.ProcessesBelow(k.groups, group, cgroup.CPUSet)
	for _, pid := range pids {
		if cpus, err := sysfs.AffinityOf(pid); err == nil {
			all = all.Union(cpus)
		}
	}
	if err != nil || !all.IsEmpty() {
		return all, err
	}
	stat, err := cgroupstat.Read(k.groups, group)
	if err == nil && stat.Usage > 0 {
		err = fmt.Errorf("%s: its threads have ended, or are not in this PID namespace", group)
	}
	return all, err
}

// units tells systemd the settings of the groups that it manages: it would undo them when a unit
// starts after it was reloaded. The files are written first; the task [units.run] then tells
// systemd, unit by unit, the last settings that were written.
//
// When systemd accepts a call it writes the files itself, with the values in the call. So a call
// that is late could undo a newer decision, and give a CPU to two pods. Therefore
//
//   - at most one call is unanswered at any time, and it is never abandoned while the connection
//     lives: systemd would still carry it out, perhaps after a later call by another connection;
//   - a decision waits for the call about a group before it changes this group, at most the
//     limit and without the engine's lock, and no call begins until its files are written;
//   - if the call lasts longer, the next one has the same unit's new settings, and a round checks
//     the files.
//
// So old settings are in force, after a reload, until the task has told systemd the last ones: for
// some milliseconds, unless systemd hangs or fails. After a call that lasts longer than callLimit
// they are for one more call. What could not be told when the agent ends is restored by a round
// when systemd has undone it.
//
// A workqueue of client-go would order and repeat the calls, but all of the above would remain, and
// a unit whose settings have changed during its call would wait for the calls about all others.
type units struct {
	root   string
	groups *cgroup.FS
	wake   chan struct{}
	limit  time.Duration // see Options.CallLimit
	// connection is the task's connection to systemd, or nil.
	connection *systemd.Units
	connecting attempts

	mu     sync.Mutex
	untold map[string]*untold // by group
	paused int                // no call begins, so that a decision waits for one at most
	raised []string           // nor about the bandwidth of these: systemd would lower the quota
	call   *call              // nil if none is unanswered
	last   string             // the group of the last call
}

// untold are the settings of a unit that systemd has not accepted yet.
type untold struct {
	cgroup.Wanted
	changed bool // since the present call began
	attempts
}

// call is a call about the unit of a group.
type call struct {
	group string
	until time.Time // when decisions stop waiting for it
	ended chan struct{}
}

// attempts are the failed attempts to do something.
type attempts struct {
	err   error // of the last one
	pause time.Duration
	next  time.Time
}

func (a *attempts) fail(err error) {
	a.err, a.pause = err, min(max(2*a.pause, minPause), maxPause)
	a.next = time.Now().Add(a.pause)
}

func newUnits(root string, groups *cgroup.FS) *units {
	return &units{root: root, groups: groups, wake: make(chan struct{}, 1), limit: callLimit, untold: map[string]*untold{}}
}

// pause lets no call begin until resume is called.
func (u *units) pause() (resume func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.paused++
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.paused--
		maps.DeleteFunc(u.untold, func(group string, _ *untold) bool { return !u.groups.Exists(group) })
		signal(u.wake)
	}
}

// unanswered returns the call for whose end a change of groups has to wait, or nil.
func (u *units) unanswered(changes func(group string) bool) *call {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.call != nil && changes(u.call.group) && time.Now().Before(u.call.until) {
		return u.call
	}
	return nil
}

func (c *call) wait() {
	select {
	case <-c.ended:
	case <-time.After(time.Until(c.until)):
	}
}

// raises says which groups have a raised quota from now on. Raises end with the agent, so systemd is not
// told of them.
func (u *units) raises(groups []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.raised = groups
}

// wrote adds settings that were written to what systemd must be told.
func (u *units) wrote(wanted map[string]cgroup.Wanted) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for group, w := range wanted {
		if slices.Contains(u.raised, group) {
			w.Quota, w.Period = nil, nil
		}
		u.add(group, w)
	}
	signal(u.wake)
}

// add adds settings that systemd must be told of. systemd needs quota and period together, and
// weights in the unit of version 2 (cgroup_cpu_weight_to_shares in src/core/cgroup.c of systemd
// 257).
func (u *units) add(group string, w cgroup.Wanted) {
	if w.CPUs == nil && w.Quota == nil && w.Period == nil && w.Weight == nil && w.Idle == nil {
		return
	}
	if w.Weight != nil && u.groups.Layout().CPU == cgroup.V1 {
		weight := max(*w.Weight*100/1024, 1)
		w.Weight = &weight
	}
	all := u.untold[group]
	if all == nil {
		all = &untold{}
		u.untold[group] = all
	}
	all.changed, all.next = true, time.Time{} // these need not wait until others are tried again
	all.CPUs, all.Quota, all.Period = cmp.Or(w.CPUs, all.CPUs), cmp.Or(w.Quota, all.Quota), cmp.Or(w.Period, all.Period)
	all.Weight, all.Idle = cmp.Or(w.Weight, all.Weight), cmp.Or(w.Idle, all.Idle)
	if (all.Quota == nil) != (all.Period == nil) {
		if s, err := u.groups.ReadParts(group, cgroup.Parts{Bandwidth: true}); err == nil { // else it has ended
			all.Quota, all.Period = cmp.Or(all.Quota, &s.Quota), cmp.Or(all.Period, &s.Period)
		}
	}
}

// run tells systemd what it must be told until the context ends. late is called after a call for
// which decisions may have stopped to wait.
func (u *units) run(ctx context.Context, dedup *logdedup.Log, late func()) {
	calls, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		cancel()
		if u.connection != nil {
			u.connection.Close()
			u.connection = nil
		}
	}()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(callLimit, cancel) })()
	warn := func(err error) {
		dedup.WarnOrClear("systemd", "a reload of systemd undoes settings, until the round after it", err)
	}
	for {
		wait := u.tell(calls, func() { warn(errors.New("systemd has not answered in time")) }, late)
		warn(u.failed())
		select {
		case <-ctx.Done():
			return
		case <-u.wake:
		case <-time.After(wait):
		}
	}
}

// tell tells systemd the settings of all units whose turn it is. It returns when to call it again,
// if no settings are written until then. slow is called while a call lasts longer than callLimit,
// and late when it has ended.
func (u *units) tell(ctx context.Context, slow, late func()) time.Duration {
	for {
		group, wait := u.next()
		if group == "" {
			return wait
		}
		if wait = time.Until(u.connecting.next); wait > 0 {
			return wait
		}
		timer := time.AfterFunc(callLimit, slow)
		if err := u.connect(ctx); err != nil {
			u.connecting.fail(err)
		} else if c, wanted := u.begin(group); c != nil {
			u.end(c, u.connection.Set(ctx, group, wanted))
		}
		if !timer.Stop() {
			late()
		}
	}
}

// next returns the group whose unit is told next, or "" and the time until then. It is that of the
// last call if its settings have changed meanwhile.
func (u *units) next() (group string, wait time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	wait = maxPause
	if u.paused > 0 {
		return "", wait
	}
	for _, group := range append([]string{u.last}, slices.Sorted(maps.Keys(u.untold))...) {
		unit := u.untold[group]
		if unit == nil || u.isHeld(group, unit) {
			continue
		}
		after := time.Until(unit.next)
		if after <= 0 {
			return group, 0
		}
		wait = min(wait, after)
	}
	return "", wait
}

// isHeld reports whether no call about a unit may begin. CPUs are told in spite of a raise, which
// ends by that: another pod may have them.
func (u *units) isHeld(group string, unit *untold) bool {
	return unit.CPUs == nil && slices.Contains(u.raised, group)
}

// begin begins a call, unless files are being written.
func (u *units) begin(group string) (*call, cgroup.Wanted) {
	u.mu.Lock()
	defer u.mu.Unlock()
	unit := u.untold[group]
	if unit == nil || u.paused > 0 || u.isHeld(group, unit) {
		return nil, cgroup.Wanted{}
	}
	u.dropOutdated(group, unit)
	unit.changed, u.last = false, group
	u.call = &call{group: group, until: time.Now().Add(u.limit), ended: make(chan struct{})}
	return u.call, unit.Wanted
}

// dropOutdated drops a quota and its period if another program has written others since: the
// kubelet at a resize, of which it has told systemd itself.
func (u *units) dropOutdated(group string, unit *untold) {
	if unit.Quota == nil {
		return
	}
	s, err := u.groups.ReadParts(group, cgroup.Parts{Bandwidth: true})
	if err == nil && (s.Quota != *unit.Quota || s.Quota != bandwidth.Unlimited && s.Period != *unit.Period) {
		unit.Quota, unit.Period = nil, nil
	}
}

// tells reports whether systemd has not accepted everything yet.
func (u *units) tells() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.untold) > 0
}

// end ends a call. What systemd has accepted is not told again.
func (u *units) end(c *call, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch unit := u.untold[c.group]; {
	case unit == nil: // it has ended
	case err != nil:
		if unit.fail(err); unit.changed { // systemd may have set the old settings all the same
			unit.next = time.Time{}
		}
	case !unit.changed:
		delete(u.untold, c.group)
	default:
		unit.attempts = attempts{}
	}
	u.call = nil
	close(c.ended)
}

// connect connects to systemd, if there is no connection. systemd ends it when it executes itself
// again.
func (u *units) connect(ctx context.Context) (err error) {
	if u.connection != nil && u.connection.Connected() {
		return nil
	}
	if u.connection != nil {
		u.connection.Close()
		u.connection = nil
	}
	if u.connection, err = systemd.Connect(ctx, u.root); err == nil {
		u.connecting = attempts{}
	}
	return err
}

// failed returns why systemd could not be told settings.
func (u *units) failed() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.untold) == 0 {
		return nil
	}
	errs := []error{u.connecting.err}
	for _, group := range slices.Sorted(maps.Keys(u.untold)) {
		errs = append(errs, u.untold[group].err)
	}
	return errors.Join(errs...)
}

// flush tells systemd all settings, once, for a program that ends. The task must have ended.
func (u *units) flush(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	u.mu.Lock()
	u.connecting.next = time.Time{}
	for _, unit := range u.untold {
		unit.next = time.Time{}
	}
	u.mu.Unlock()
	u.tell(ctx, func() {}, func() {})
	return u.failed()
}
