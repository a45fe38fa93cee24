package cgroupstat

import (
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/linux/kubepods"
)

// innerReader reads the group that crun makes in a container's scope ([kubepods.Inner]). Both groups
// may have the quota, with periods that begin at different times, and either may throttle.
type innerReader struct {
	*Reader // nil after the group has ended
	// more is by how much these groups have counted more than the scope, summed over all reads. scope
	// and own are what both had at the last read.
	more, scope, own Stat
}

// openInner looks for the group, which crun makes a moment after the scope.
func (r *Reader) openInner() {
	if r.inner.Reader != nil {
		return
	}
	if group := kubepods.Inner(r.fs, r.group); group != "" {
		if inner, err := Open(r.fs, group); err == nil { // else it has ended
			r.inner.Reader, r.inner.own = inner, Stat{}
		}
	}
}

func (i *innerReader) close() {
	if i.Reader != nil {
		i.Close()
		i.Reader = nil
	}
}

// addTo makes of the scope's statistics those of both groups: what the one that counted more since
// the last read has counted, summed over all reads. Usage is the scope's, which has all processes.
// What a group had counted when it ended stays, since who reads counters expects them to grow.
func (i *innerReader) addTo(scope *Stat) {
	var now Stat
	if i.Reader != nil && i.read(&now) != nil {
		i.close()
	}
	if i.Reader != nil {
		add(&i.more.Periods, now.Periods-i.own.Periods, scope.Periods-i.scope.Periods)
		add(&i.more.Throttled, now.Throttled-i.own.Throttled, scope.Throttled-i.scope.Throttled)
		add(&i.more.ThrottledTime, now.ThrottledTime-i.own.ThrottledTime, scope.ThrottledTime-i.scope.ThrottledTime)
		add(&i.more.Bursts, now.Bursts-i.own.Bursts, scope.Bursts-i.scope.Bursts)
		add(&i.more.BurstTime, now.BurstTime-i.own.BurstTime, scope.BurstTime-i.scope.BurstTime)
		i.own = now
	}
	i.scope = *scope
	scope.Periods += i.more.Periods
	scope.Throttled += i.more.Throttled
	scope.ThrottledTime += i.more.ThrottledTime
	scope.Bursts += i.more.Bursts
	scope.BurstTime += i.more.BurstTime
}

// add adds by how much inner has grown more than outer.
func add[T uint64 | time.Duration](more *T, inner, outer T) {
	if inner > outer {
		*more += inner - outer
	}
}

// tighter returns the limits of the group that allows less.
func tighter(scope, inner bandwidth.Limits) bandwidth.Limits {
	most, limited := inner.CPUs()
	if scoped, also := scope.CPUs(); !limited || also && scoped < most {
		return scope
	}
	return inner
}
