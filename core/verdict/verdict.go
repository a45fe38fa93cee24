package verdict

import (
	"fmt"
	"math"
	"slices"
	"time"

	"pinfold.dev/pinfold/core/quantity"
)

// Window is what counters said of one container between two readings.
type Window struct {
	Time time.Duration
	// Usage is the CPU time.
	Usage time.Duration
	// Limit is the limit in CPUs, 0 if it is not known.
	Limit float64
	// Periods are those in which the bandwidth timer ran, and Throttled those of them in which the container
	// was throttled. Both are 0 without Counted.
	Periods, Throttled float64
	Counted            bool
	// Bursts are the periods in which it used more than its quota, which takes a burst; 0 if that is not known.
	Bursts float64
}

// Period is the enforcement period that is assumed, the kernel's default.
const Period = 100 * time.Millisecond

// Action is what a verdict says to do.
type Action string

// The actions.
const (
	Unknown Action = "unknown" // the counters do not tell
	Fine    Action = "fine"    // it is throttled no more than wanted
	Burst   Action = "burst"   // a burst at the present limit ends the throttling
	Raise   Action = "raise"   // no burst suffices: another limit, with burst
	Lower   Action = "lower"   // a lower limit, with burst, throttles no more than wanted
	Remove  Action = "remove"  // its limit protects nobody
	NoLimit Action = "none"    // it has no limit
)

// Verdict is what to do about the limit of a container, or of those of all replicas.
type Verdict struct {
	Action Action `json:"action"`
	Reason string `json:"reason"` // a sentence
	// CPUs is the average use, Limit the limit, and Throttled the share of periods in which it was throttled, of
	// wall time; nil and 0 if it is not known.
	CPUs      *float64 `json:"cpus,omitempty"`
	Limit     float64  `json:"limitCPUs,omitempty"`
	Throttled *float64 `json:"throttledShare,omitempty"`
	// Time is that of all windows together.
	Time quantity.Seconds `json:"seconds"`

	// Advised is the limit to set with a burst of 100%, and Low and High what the models that agree with the
	// counters say.
	Advised float64 `json:"advisedCPUs,omitempty"`
	Low     float64 `json:"lowCPUs,omitempty"`
	High    float64 `json:"highCPUs,omitempty"`
	// Predicted is the share of periods that will be throttled, the largest of those models.
	Predicted *float64 `json:"predictedShare,omitempty"`
	// Measured is set if single periods were measured, and no model was needed: Low and High are the bounds of
	// a bucket then.
	Measured bool `json:"measured,omitempty"`

	demands []demander // those models, or what was measured
}

// Decide reports whether a recording would tell more.
func (v *Verdict) Decide() bool { return v.Action == Unknown }

const (
	// farApart is the largest ratio of limits of models that agree with the counters for which there is a
	// verdict.
	farApart = 2
	// settled is the share of the time at least of which the throttling is known, if it is said to be fine, or
	// single periods, if these count.
	settled = .5
	// full is the part of a limit from which on a window does not show what was wanted.
	full = .95
	// fewest is how many throttled periods a model is fitted to at least.
	fewest = 30
	// unlikely is by how much the logarithm of a model's likelihood may be less than the best one's, and
	// wrong the relative error that figures of a model may have.
	unlikely, wrong = 3, .1
	// nearlyIdle is the part of the average load at most of windows in which next to nothing is done.
	nearlyIdle = .25
	// harmless is the share of periods in which others may wait for a container without a limit.
	harmless = .01
	// worthSaving is the largest part of a limit that is worth a change.
	worthSaving = .9
)

// WithoutLimit changes the verdict on a container that no burst at its limit helps, and without whose
// limit others would wait in a share of their periods that is at most delayed, if that is little.
func (v *Verdict) WithoutLimit(delayed float64) {
	if v.Action != Raise && v.Action != Unknown || delayed > harmless {
		return
	}
	v.Action, v.Advised, v.Low, v.High, v.Predicted = Remove, 0, 0, 0, nil
	v.Reason = fmt.Sprintf("it was throttled in %s of the periods, and its limit protects nobody: without it, others on its nodes would wait for it in at most %s of the periods",
		quantity.Share(*v.Throttled), quantity.Share(delayed))
}

// Of returns the verdict on a container, or on several of which all windows are given. All have the same
// limit, or none that is known. goal is the share of periods that may be throttled, above 0 and below 1.
func Of(windows []Window, goal float64) Verdict { return OfMeasured(windows, Measured{}, goal) }

// OfMeasured is [Of] a container of which single periods were measured, if they were for most of the time.
func OfMeasured(windows []Window, m Measured, goal float64) Verdict {
	v := Verdict{Action: Unknown}
	var time, usage, limited, counted, throttled, fullTime float64
	for i := range windows {
		w := &windows[i]
		time += w.Time.Seconds()
		usage += w.Usage.Seconds()
		if w.Limit > 0 {
			v.Limit = w.Limit
			limited += w.Time.Seconds()
			if w.Usage.Seconds() >= full*w.Limit*w.Time.Seconds() {
				fullTime += w.Time.Seconds()
			}
		}
		if w.Counted {
			counted += w.Time.Seconds()
			throttled += min(w.Throttled*Period.Seconds(), w.Time.Seconds())
		}
	}
	if time == 0 {
		v.Reason = "there are no two readings of its CPU time"
		return v
	}
	v.Time = quantity.Seconds{Duration: seconds(time)}
	mean := usage / time
	v.CPUs = &mean
	if counted > 0 {
		share := throttled / counted
		v.Throttled = &share
	}
	sums := sumsOf(windows)
	all := total(sums)
	switch {
	case counted == 0:
		v.Reason = "whether it was throttled is not known: the server has no container_cpu_cfs_periods_total of it"
		if limited == 0 {
			v.Reason = "neither its limit nor whether it was throttled is known"
		}
		return v
	case limited == 0:
		v.Reason = "its limit is not known: the server has neither container_spec_cpu_quota nor kube_pod_container_resource_limits of it"
		return v
	case all.periods == 0:
		v.Reason = "its limit is not known for the time in which its throttling was counted"
		return v
	}
	share := *v.Throttled
	measured := m.Limits.periods()*Period.Seconds() >= settled*time
	shown := quantity.Share(share).String()
	ran, bursts := ranAndBursts(windows)
	if ran > 1.05*all.periods {
		v.Throttled = nil
		v.Reason = "more enforcement periods were counted than of 100 ms: it has shorter ones, which verdicts are not about"
		return v
	} else if bursts > 0 && !measured {
		v.Action, v.Reason = Fine, fmt.Sprintf("it has a burst, and was throttled in %s of the periods", shown)
		if share > goal {
			v.Action, v.Low = Raise, v.Limit
			v.Reason += ": it needs a larger limit, and how much larger is not known"
		}
		return v
	}
	if share > goal && fullTime > 0.01*time && (!measured || fullTime > settled*time) {
		v.Action, v.Low = Raise, v.Limit
		v.Reason = fmt.Sprintf("it was throttled in %s of the periods, and used its whole limit for %s of the time: it wants more than that, and how much more is not known", shown, quantity.Share(fullTime/time))
		return v
	}
	if share <= goal && counted < settled*time {
		v.Reason = fmt.Sprintf("its throttling is known for %s of the time only, in which it was throttled in %s of the periods", quantity.Share(counted/time), shown)
		return v
	}
	if measured {
		v.measure(&m, share, goal, fullTime > 0.01*time, bursts > 0)
		return v
	}
	if all.throttled < fewest {
		v.Action = Fine
		v.Reason = fmt.Sprintf("it was throttled in %s of the periods", shown)
		if share > goal {
			v.Action, v.Reason = Unknown, v.Reason+", which is more than wanted, and too few to say why"
		}
		return v
	}
	v.fit(sums, share, goal)
	return v
}

// fit sets the verdict by the models that agree with the counters.
func (v *Verdict) fit(sums []sum, share, goal float64) {
	shown := quantity.Share(share).String()
	fits := fitting(sums)
	if len(fits) == 0 {
		v.Reason = fmt.Sprintf("it was throttled in %s of the periods, which no model of its demand explains", shown)
		if share <= goal {
			v.Action, v.Reason = Fine, fmt.Sprintf("it was throttled in %s of the periods", shown)
		}
		return
	}
	var present, limits []float64
	for i := range fits {
		v.demands = append(v.demands, &demanded{fits[i].shape, sums})
		present = append(present, fits[i].share(sums, 1, 1))
		limits = append(limits, v.Limit*fits[i].factor(sums, 1, goal))
	}
	v.Low, v.High = slices.Min(limits), slices.Max(limits)
	most, least := slices.Max(present), slices.Min(present)
	apart := v.High/v.Low > farApart
	v.Advised = math.Ceil(100*v.High) / 100
	predict := func(factor float64) {
		predicted := 0.
		for i := range fits {
			predicted = max(predicted, fits[i].share(sums, factor, 1))
		}
		v.Predicted = &predicted
	}
	switch {
	case share <= goal:
		v.Action = Fine
		v.Reason = fmt.Sprintf("it was throttled in %s of the periods", shown)
		if !apart && v.Advised <= worthSaving*v.Limit {
			v.Action = Lower
			v.Reason += fmt.Sprintf("; with a burst of 100%%, a limit of %s throttles at most %s", quantity.CPUs(v.Advised), quantity.Share(goal))
			predict(v.Advised / v.Limit)
			return
		}
		v.Advised = 0
	case most <= goal:
		v.Action, v.Advised = Burst, v.Limit
		v.Reason = fmt.Sprintf("it was throttled in %s of the periods, and uses %s of its limit: a burst of 100%% ends that", shown, quantity.Share(*v.CPUs/v.Limit))
		predict(1)
	case apart:
		v.Advised = 0
		v.Reason = fmt.Sprintf("it was throttled in %s of the periods; with a burst of 100%% that could be %s to %s, and it needs a limit of %s to %s", shown,
			quantity.Share(least), quantity.Share(most), quantity.CPUs(v.Low).Amount(), quantity.CPUs(v.High))
	default:
		v.Action = Raise
		v.Reason = fmt.Sprintf("it was throttled in %s of the periods, and a burst of 100%% leaves up to %s: it needs a limit of %s as well", shown,
			quantity.Share(most), quantity.CPUs(v.Advised))
		predict(v.Advised / v.Limit)
	}
}

// ranAndBursts returns the periods in which the timer ran, and those with bursts, of windows whose limit is
// known.
func ranAndBursts(windows []Window) (ran, bursts float64) {
	for i := range windows {
		if w := &windows[i]; w.Counted && w.Limit > 0 {
			ran, bursts = ran+w.Periods, bursts+w.Bursts
		}
	}
	return ran, bursts
}
