package advice

import (
	"fmt"
	"math"
	"slices"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/demand"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/trace"
)

const (
	// leastThrottled is how many periods a wanted share must amount to.
	leastThrottled = 10
	// mostAveraged is the largest share of the periods that may be known as averages only.
	mostAveraged = .1
	// mostlyThrottled is the throttle ratio from which on recovered demand is a guess on the high
	// side (core/trace, testdata/recovered.txt).
	mostlyThrottled = .3
	// farOff is by how much the replay may be off what was counted.
	farOff = .05
)

// subject is what a recording says of one group's demand.
type subject struct {
	series  *trace.Series
	nominal time.Duration
	goal    Goal
	summary trace.Summary
	period  time.Duration
	demand  trace.Demand
	wanted  amounts
	mean    float64
	piece   float64 // periods
	enough  bool    // pieces of that length keep what demand remembers
	blocks  *demand.Blocks

	// unknown says why single periods are not known; unsure, why what is known of them does
	// not suffice for shares of them. Empty when they do.
	unknown, unsure string
}

func newSubject(s *trace.Series, nominal time.Duration, goal Goal) *subject {
	sub := &subject{series: s, nominal: nominal, goal: goal, summary: trace.Summarise(s, nominal), period: trace.DefaultPeriod}
	if p := sub.summary.Limits.Period; p > 0 {
		sub.period = min(max(p, bandwidth.MinPeriod), bandwidth.MaxPeriod)
	}
	var err error
	if sub.demand, err = s.Demand(nominal, sub.period); err != nil {
		sub.unknown = fmt.Sprintf("not enough data: %v", err)
		return sub
	}
	sub.wanted = amountsOf(sub.demand.CPUs, sub.period)
	if sub.blocks, err = demand.NewBlocks(sub.demand.CPUs, 1); err != nil {
		sub.unknown = "not enough data: nothing was used in the whole recording; record while there is load"
		return sub
	}
	sub.mean = sub.blocks.Mean()
	sub.piece, sub.enough = demand.BlockLength(sub.demand.CPUs)
	if sub.blocks, err = demand.NewBlocks(sub.demand.CPUs, sub.piece); err != nil {
		sub.unknown = fmt.Sprintf("not enough data: %v", err)
		return sub
	}
	sub.unknown = sub.whyUnknown()
	if sub.unsure = sub.whyUnsure(); sub.unsure == "" {
		sub.unsure = sub.whyUnexplained()
	}
	return sub
}

func (sub *subject) whyUnknown() string {
	d := &sub.demand
	switch {
	case d.OpenShare >= sub.goal.ThrottleRatio:
		return fmt.Sprintf("not enough data: in %s of the time it was throttled and never had room again, so nobody knows what it wanted; record without limit, or with a higher one",
			quantity.Share(d.OpenShare))
	case d.Averaged > mostAveraged:
		return fmt.Sprintf("not enough data: %s of the periods are known as averages over several only, since samples came late; record on a less busy machine, or with more of its time",
			quantity.Share(d.Averaged))
	}
	return ""
}

func (sub *subject) whyUnsure() string {
	n := len(sub.wanted)
	switch {
	case float64(n) < math.Ceil(leastThrottled/sub.goal.ThrottleRatio):
		return tooFew(n, sub.period, sub.goal.ThrottleRatio)
	case !sub.enough:
		return fmt.Sprintf("not enough data: what it wanted goes up and down over longer than %v, a %dth of the recording; record several times as long, or only while it is busiest",
			(time.Duration(sub.piece * float64(sub.period))).Round(time.Second/10), int(float64(n)/sub.piece))
	}
	return ""
}

// whyUnexplained withholds advice that the kernel contradicts: it throttled the group too often at
// a limit that would be called high enough.
func (sub *subject) whyUnexplained() string {
	replayed, ok := sub.replayed()
	counted := sub.summary.ThrottledOfWall()
	if !ok || !isFarOff(replayed, counted) || replayed > sub.goal.ThrottleRatio || counted <= sub.goal.ThrottleRatio {
		return ""
	}
	return fmt.Sprintf("not enough data: the kernel throttled it in %s of the periods, and replayed at the same limit it is in %s; record without limit, or with a higher one",
		quantity.Share(counted), quantity.Share(replayed))
}

// isFarOff reports whether the replay does not say what the kernel counted.
func isFarOff(replayed, counted float64) bool {
	return math.Abs(replayed-counted) > max(farOff, counted/2)
}

// lacking returns why shares of periods cannot be advised on; "" when they can.
func (sub *subject) lacking() string {
	if sub.unknown != "" {
		return sub.unknown
	}
	return sub.unsure
}

func (sub *subject) recorded() Recorded {
	r := Recorded{
		Time: Seconds{sub.summary.Time}, Period: Seconds{sub.period}, Periods: len(sub.wanted),
		AverageCPUs: sub.summary.CPUs(), LimitChanges: sub.summary.LimitChanges, ThrottleRatio: sub.summary.ThrottledOfWall(),
		Moved: sub.demand.Moved, Averaged: sub.demand.Averaged, OpenShare: sub.demand.OpenShare,
	}
	if cpus, limited := sub.limit(); limited {
		r.LimitCPUs = cpus
		r.BurstPercent = 100 * float64(sub.summary.Limits.Burst) / float64(sub.summary.Limits.Quota)
	}
	if n := len(sub.wanted); n > 0 {
		sorted := slices.Sorted(slices.Values(sub.demand.CPUs))
		r.P99CPUs, r.PeakCPUs = sorted[(99*n+99)/100-1], sorted[n-1]
	}
	return r
}

// limit returns the last limit that was recorded; false when there was none.
func (sub *subject) limit() (float64, bool) {
	quota := min(sub.summary.Limits.Quota, bandwidth.MaxQuota)
	if sub.summary.Samples == 0 || quota <= 0 {
		return 0, false
	}
	return float64(quota) / float64(sub.period), true
}

// replayed returns the throttle ratio at the limit and burst that were recorded; false when
// that cannot be compared with what was counted.
func (sub *subject) replayed() (float64, bool) {
	l := sub.summary.Limits
	if _, limited := sub.limit(); !limited || sub.summary.LimitChanges > 0 || sub.blocks == nil || sub.lacking() != "" {
		return 0, false
	}
	return sub.wanted.throttleRatio(int64(l.Quota), int64(l.Burst)), true
}

// warnings are sentences about the recording as a whole.
func (sub *subject) warnings() []string {
	var w []string
	d := &sub.demand
	if sub.summary.LimitChanges > 0 {
		w = append(w, fmt.Sprintf("the limit or burst changed %s while recording; the last one counts as the present one", quantity.Count(sub.summary.LimitChanges, "time")))
	}
	if d.Moved > 0 {
		w = append(w, fmt.Sprintf("it was throttled while recording: %s of the usage was wanted earlier and was moved there, an estimate that confidence intervals do not cover; a recording without limit says more, as clients that wait send less",
			quantity.Share(d.Moved)))
	}
	if sub.summary.ThrottledTime == 0 && d.Throttled > 0 {
		w = append(w, fmt.Sprintf("throttling was counted in %s of the time, without its duration, so what was wanted there is taken to be what was used; record with pinfold sample",
			quantity.Share(d.Throttled)))
	}
	replayed, comparable := sub.replayed()
	counted := sub.summary.ThrottledOfWall()
	unlike := comparable && isFarOff(replayed, counted)
	if r := counted; r > mostlyThrottled && sub.lacking() == "" && !(unlike && replayed < counted) {
		w = append(w, fmt.Sprintf("%s of the periods were throttled while recording: what is advised is likely too much; record again with it, and ask again", quantity.Share(r)))
	}
	if d.Open > 0 {
		w = append(w, fmt.Sprintf("%s of throttling had no end, in %s of the time: what was wanted there is not known, and more than was recorded",
			quantity.Count(d.Open, "run"), quantity.Share(d.OpenShare)))
	}
	if unlike {
		w = append(w, fmt.Sprintf("replayed at its own limit it is throttled in %s of the periods, where the kernel counted %s: when in a period it runs, or what runs beside it, matters more here than is modelled, so take the figures with care",
			quantity.Share(replayed), quantity.Share(counted)))
	}
	if d.Averaged > sub.goal.ThrottleRatio {
		w = append(w, fmt.Sprintf("late samples: %s of the periods are averages over several, which may hide higher ones", quantity.Share(d.Averaged)))
	}
	return w
}
