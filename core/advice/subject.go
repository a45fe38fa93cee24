package advice

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/demand"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/trace"
)

const (
	// maxAveraged is the largest share of the periods that may be known only as averages.
	maxAveraged = .1
	// farOff is the largest acceptable difference between the replay and the kernel's counters.
	farOff = .05
)

// subject is one recorded group with its demand.
type subject struct {
	series  *trace.Series
	nominal time.Duration
	goal    Goal
	summary trace.Summary
	period  time.Duration
	// demand has the phases of wanted.
	demand trace.Demand
	// wanted is what advice is about. least and most are the ends of what it may have been.
	wanted, least, most phases
	served              phases  // [trace.Series.Demand]
	waited              float64 // that of [trace.Bounds]
	mean                float64
	piece               float64        // length of a bootstrap piece in periods
	enough              bool           // the recording is long enough for pieces of that length
	pieces              *demand.Blocks // see phases.pieces; nil if the demand is unknown

	// unknown is the reason why the demand of single periods is unknown. unsure is the reason why it
	// does not suffice for shares of periods. Both are "" if the demand suffices.
	unknown, unsure string
}

func newSubject(s *trace.Series, nominal time.Duration, goal Goal) *subject {
	sub := &subject{series: s, nominal: nominal, goal: goal, summary: trace.Summarise(s, nominal)}
	sub.period = min(max(trace.PeriodOf(sub.summary.Limits), bandwidth.MinPeriod), bandwidth.MaxPeriod)
	var err error
	if sub.demand, err = s.Demand(nominal, sub.period); err != nil {
		sub.unknown = fmt.Sprintf("not enough data: %v", err)
		return sub
	}
	sub.bound(s.Bounds(nominal, sub.period))
	sub.piece, sub.enough = demand.BlockLength(sub.demand.CPUs)
	if sub.pieces = sub.wanted.pieces(sub.piece); sub.pieces == nil {
		sub.unknown = "not enough data: no CPU time was used in the whole recording; record under load"
		return sub
	}
	sub.mean = stat.Mean(sub.demand.Phases[0], nil)
	sub.unknown = sub.whyUnknown()
	for _, why := range []func() string{sub.whyTooFew, sub.whyFarApart, sub.whyCorrelated, sub.whyUnexplained} {
		if sub.obstacle() == "" {
			sub.unsure = why()
		}
	}
	return sub
}

// periods returns the number of recorded periods.
func (sub *subject) periods() int { return len(sub.demand.CPUs) }

func (sub *subject) whyUnknown() string {
	d := &sub.demand
	switch {
	case d.OpenShare >= sub.goal.ThrottleRatio:
		return fmt.Sprintf("not enough data: in %s of the time it was throttled without catching up afterwards, so its demand is unknown; record without a limit, or with a higher one",
			quantity.Share(d.OpenShare))
	case d.Averaged > maxAveraged:
		return fmt.Sprintf("not enough data: late samples: %s of the periods are known only as averages over several; record on a less busy machine, or give the sampler more CPU time",
			quantity.Share(d.Averaged))
	}
	return ""
}

func (sub *subject) whyTooFew() string {
	if n := sub.periods(); !suffices(n, sub.goal.ThrottleRatio) {
		return tooFew(n, sub.period, sub.goal.ThrottleRatio)
	}
	return ""
}

func (sub *subject) whyCorrelated() string {
	if sub.enough {
		return ""
	}
	return fmt.Sprintf("not enough data: demand is correlated over more than %v, a %dth of the recording; record several times as long, or only the busiest time",
		(time.Duration(sub.piece * float64(sub.period))).Round(time.Second/10), int(float64(sub.periods())/sub.piece))
}

// whyUnexplained withholds advice that the kernel's counters contradict: a limit that the replay
// accepts, but under which the kernel throttled the group too often.
func (sub *subject) whyUnexplained() string {
	replayed, ok := sub.replayed()
	counted := sub.summary.ThrottledOfWall()
	if !ok || !isFarOff(replayed, counted) || replayed > sub.goal.ThrottleRatio || counted <= sub.goal.ThrottleRatio {
		return ""
	}
	return fmt.Sprintf("not enough data: the kernel throttled it in %s of the periods, but the replay at the same limit in %s; %s",
		quantity.Share(counted), quantity.Share(replayed), sub.recordAgain())
}

// isFarOff reports whether the replay differs much from the kernel's counters.
func isFarOff(replayed, counted float64) bool {
	return math.Abs(replayed-counted) > max(farOff, counted/2)
}

// obstacle returns why no advice on shares of periods is possible, or "".
func (sub *subject) obstacle() string {
	return cmp.Or(sub.unknown, sub.unsure)
}

// maxOpen is the largest share of time with unknown demand for which the 99th percentile is known.
const maxOpen = .01

func (sub *subject) recorded() Recorded {
	r := Recorded{
		Time: quantity.Seconds{Duration: sub.summary.Time}, Period: quantity.Seconds{Duration: sub.period}, Periods: sub.periods(),
		AverageCPUs: sub.summary.CPUs(), LimitChanges: sub.summary.LimitChanges, Unknown: sub.summary.Unknown,
		Moved: sub.demand.Moved, Averaged: sub.demand.Averaged, OpenShare: sub.demand.OpenShare,
	}
	if unknown := r.Unknown; !unknown.Has(trace.Periods) {
		ofWall, ofTimer := sub.summary.ThrottledOfWall(), sub.summary.ThrottledOfTimer()
		if r.ThrottleRatioOfTimer = &ofTimer; !unknown.Has(trace.Limits) {
			r.ThrottleRatio = &ofWall
		}
	}
	if sub.series.Exact != nil || !r.Unknown.Has(trace.Waits) {
		r.Waited = &sub.waited
	}
	if cpus, limited := sub.limit(); limited {
		r.LimitCPUs = cpus
		if sub.obstacle() == "" && !r.Unknown.Has(trace.Burst) {
			d := sub.served.delay(int64(sub.summary.Limits.Quota), int64(sub.summary.Limits.Burst), sub.period)
			r.Delay = &d
		}
		r.BurstPercent = 100 * float64(sub.summary.Limits.Burst) / float64(sub.summary.Limits.Quota)
	}
	if n := sub.periods(); n > 0 && r.OpenShare <= maxOpen {
		sorted := slices.Sorted(slices.Values(sub.demand.CPUs))
		r.P99CPUs, r.PeakCPUs = &sorted[(99*n+99)/100-1], &sorted[n-1]
	}
	return r
}

// limit returns the last recorded limit, and false if there was none.
func (sub *subject) limit() (float64, bool) {
	quota := min(sub.summary.Limits.Quota, bandwidth.MaxQuota)
	if sub.summary.Samples == 0 || quota <= 0 {
		return 0, false
	}
	return float64(quota) / float64(sub.period), true
}

// replayed returns the throttle ratio of a replay at the recorded limit and burst, and false if it
// is not comparable with the kernel's counters.
func (sub *subject) replayed() (float64, bool) {
	l := sub.summary.Limits
	if _, limited := sub.limit(); !limited || sub.summary.Unknown.Has(trace.Burst) || sub.summary.LimitChanges > 0 || sub.pieces == nil || sub.obstacle() != "" {
		return 0, false
	}
	return sub.served.throttleRatio(int64(l.Quota), int64(l.Burst)), true
}

// warnings returns sentences about the recording as a whole.
func (sub *subject) warnings() []string {
	var w []string
	warn := func(format string, args ...any) { w = append(w, fmt.Sprintf(format, args...)) }
	d := &sub.demand
	if sub.summary.LimitChanges > 0 {
		warn("the limit or burst changed %s while recording; the last one counts as the present one", quantity.Count(sub.summary.LimitChanges, "time"))
	}
	if sub.summary.Unknown.Has(trace.Periods) {
		warn("whether it was throttled is unknown: if it was, it wanted more than it used")
	}
	if sub.summary.ThrottledTime == 0 && d.Throttled > 0 && !d.Exact {
		warn("throttling was counted in %s of the time without its duration, so demand there is taken to be the usage; record with pinfold sample", quantity.Share(d.Throttled))
	}
	if hindered := sub.hindered(); hindered != "" && sub.obstacle() == "" {
		warn("%s", hindered)
	}
	if d.Averaged > sub.goal.ThrottleRatio {
		warn("late samples: %s of the periods are averages over several, which may hide peaks", quantity.Share(d.Averaged))
	}
	return w
}

// limitAt is the limit that the other advice assumes.
type limitAt struct {
	cpus float64 // 0 without a limit
	name string
}

// limitToAdviseFor returns the recorded limit or, without one, the advised limit with burst.
func (sub *subject) limitToAdviseFor(advised Limit) limitAt {
	if cpus, limited := sub.limit(); limited {
		return limitAt{cpus: cpus, name: fmt.Sprintf("the present limit of %s", quantity.CPUs(cpus))}
	}
	if !advised.Enough {
		return limitAt{}
	}
	present := "none was recorded"
	if sub.summary.Unknown.Has(trace.Limits) {
		present = "the present one is unknown"
	}
	return limitAt{cpus: advised.LimitCPUs, name: fmt.Sprintf("the advised limit of %s (%s)", quantity.CPUs(advised.LimitCPUs), present)}
}

// unknown returns why nothing can be advised at this limit, or "".
func (at limitAt) unknown(sub *subject) string {
	switch {
	case sub.unknown != "":
		return sub.unknown
	case at.cpus == 0 && sub.unsure != "":
		return sub.unsure
	case at.cpus == 0:
		return "not enough data: no limit was recorded, and none can be advised"
	}
	return ""
}

// obstacle returns why no advice on shares of periods is possible at this limit, or "".
func (at limitAt) obstacle(sub *subject) string {
	return cmp.Or(at.unknown(sub), sub.unsure)
}

// stall rounds a wait to a millisecond.
func stall(d time.Duration) string { return d.Round(time.Millisecond).String() }
