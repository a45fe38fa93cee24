package judge

import (
	"math"
	"slices"
)

// Tried are the runs of a row in one condition that are judged together.
type Tried struct {
	Good, Disturbed []Run
	Another         []Run  // with another load
	Units           []Unit // of the good ones
}

// Unit is one or more runs, which together are about as long as the recording.
type Unit struct {
	Throttled, Periods float64
	Inside             bool
}

// Share is the share of throttled periods.
func (u Unit) Share() float64 { return u.Throttled / u.Periods }

// tried returns the runs of a row in one condition.
func (r Results) tried(recording Recording, on Beside) (t Tried) {
	for _, run := range r.Runs {
		switch {
		case run.Row != recording.Row || run.On != on:
		case run.Disturbed != "":
			t.Disturbed = append(t.Disturbed, run)
		case run.another(recording.Measured):
			t.Another = append(t.Another, run)
		default:
			t.Good = append(t.Good, run)
		}
	}
	t.Units = recording.units(t.Good)
	return t
}

// units combines runs.
func (r Recording) units(runs []Run) (all []Unit) {
	length := 0.0
	for _, run := range runs {
		length += run.Periods()
	}
	// Part of a recording's time is needed to begin and to end.
	units := int(length/(r.Advice.Recorded.Seconds/period.Seconds()) + .1)
	n := len(runs)
	units = min(max(1, units), n)
	for i := range units {
		all = append(all, unit(r.Advice, runs[i*n/units:(i+1)*n/units]))
	}
	return all
}

func inside(units []Unit) (n int) {
	for _, u := range units {
		if u.Inside {
			n++
		}
	}
	return n
}

// unit judges some runs. A number of periods is whole, so the ends of the interval are rounded to
// whole numbers: a share of 0.05% of 1,000 periods cannot be measured.
func unit(a Advice, runs []Run) (u Unit) {
	for _, run := range runs {
		u.Throttled += float64(run.Throttled)
		u.Periods += run.Periods()
	}
	u.Inside = u.Throttled >= math.Floor(a.LowThrottleRatio*u.Periods) && u.Throttled <= math.Ceil(a.HighThrottleRatio*u.Periods)
	return u
}

// Verdict counts how good the advice is.
type Verdict struct {
	Inside, Judged            int // units in the interval, of all that are judged
	InsideAll, JudgedAll      int // with runs with another load
	Another, All              int // runs with another load, of those that are not disturbed
	AbstainedBusy, Busy       int // recordings beside neighbours
	AbstainedIdle, Idle       int
	Contradicted              int // advice below the limit under which it was throttled too much, and waited
	DisturbedRecordings, Runs int // results that are not judged
}

// Good reports whether the advice keeps what it should: 95% of what is measured is in the interval,
// at most a third of the recordings on busy machines give no advice, all others do, and none
// contradicts the recording.
func (v Verdict) Good() bool {
	return v.Judged > 0 && 100*v.Inside >= 95*v.Judged && 3*v.AbstainedBusy <= v.Busy && v.AbstainedIdle == 0 && v.Contradicted == 0
}

// Verdict judges the results.
func (r Results) Verdict() (v Verdict) {
	for _, one := range r.Recordings {
		if one.Disturbed != "" {
			v.DisturbedRecordings++
			continue
		}
		all, abstained := &v.Busy, &v.AbstainedBusy
		if one.Beside == Idle {
			all, abstained = &v.Idle, &v.AbstainedIdle
		}
		*all++
		if !one.Advice.Enough {
			*abstained++
			continue
		}
		if r.contradicted(one) {
			v.Contradicted++
		}
		for _, on := range tried() {
			t := r.tried(one, on)
			v.Runs += len(t.Disturbed)
			v.Another += len(t.Another)
			v.All += len(t.Another) + len(t.Good)
			v.Judged += len(t.Units)
			v.Inside += inside(t.Units)
			all := one.units(slices.Concat(t.Good, t.Another))
			v.JudgedAll += len(all)
			v.InsideAll += inside(all)
		}
	}
	return v
}

// waitedMuch is the share of its run time for which a program waited for CPUs, from which its usage
// does not show its demand.
const waitedMuch = .05

// contradicted reports whether the advice is a limit below that of the recording, although the
// kernel throttled the program more than wanted, and it waited.
func (r Results) contradicted(one Recording) bool {
	recorded := one.Advice.Recorded
	return one.Limited && one.Advice.LimitCPUs < RecordedLimit && recorded.ThrottleRatio != nil && recorded.Waited != nil &&
		*recorded.ThrottleRatio > r.Sessions[0].Size.Throttled && *recorded.Waited > waitedMuch
}
