package judge

import "math"

// Tried are the runs of a row in one condition that are judged together.
type Tried struct {
	Good, Disturbed []Run
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
	length := 0.0
	for _, run := range r.Runs {
		switch {
		case run.Row != recording.Row || run.On != on:
		case run.Disturbed != "":
			t.Disturbed = append(t.Disturbed, run)
		default:
			t.Good = append(t.Good, run)
			length += run.Periods()
		}
	}
	// Part of a recording's time is needed to begin and to end.
	units := int(length/(recording.Advice.Recorded.Seconds/period.Seconds()) + .1)
	n := len(t.Good)
	units = min(max(1, units), n)
	for i := range units {
		t.Units = append(t.Units, unit(recording.Advice, t.Good[i*n/units:(i+1)*n/units]))
	}
	return t
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
	Inside, Judged            int // units in the interval, of all that are not disturbed
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
			v.Judged += len(t.Units)
			for _, u := range t.Units {
				if u.Inside {
					v.Inside++
				}
			}
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
