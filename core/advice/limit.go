package advice

import (
	"fmt"
	"math"
	"time"

	"pinfold.dev/pinfold/core/quantity"
)

// limitFor returns the limit for a burst in multiples of the quota, without its confidence
// interval.
func (sub *subject) limitFor(burst float64) Limit {
	l := Limit{BurstPercent: 100 * burst}
	if l.Reason = sub.obstacle(); l.Reason != "" {
		return l
	}
	l.Enough = true
	fit := func(fitted, judged phases) HeldOut {
		cpus := sub.smallestLimit(fitted, burst)
		if present, limited := sub.limit(); limited && sub.isHeldBack() {
			cpus = max(cpus, present)
		}
		quota := quotaOf(cpus, sub.period)
		saved := int64(burst * float64(quota))
		return HeldOut{LimitCPUs: cpus, FittedThrottleRatio: fitted.throttleRatio(quota, saved), JudgedThrottleRatio: judged.throttleRatio(quota, saved)}
	}
	whole := fit(sub.wanted, sub.wanted)
	l.LimitCPUs, l.ThrottleRatio = whole.LimitCPUs, whole.FittedThrottleRatio
	quota := quotaOf(l.LimitCPUs, sub.period)
	l.Delay = sub.wanted.delay(quota, int64(burst*float64(quota)), sub.period)
	l.HeldOut = fit(sub.wanted.halves())
	return l
}

// nearlyAll is the utilisation of a limit above which little time is left to catch up. Measured: a
// steady load of 2 ms of work every 10 ms was throttled in 60% of the periods at 95% of the limit,
// and in 4% at 90% (Linux 6.18, a busy virtual machine with 2 CPUs, 2026-11).
const nearlyAll = .9

// cautions returns warnings about what a throttle ratio does not show.
func (l *Limit) cautions(sub *subject) []string {
	if !l.Enough {
		return nil
	}
	var w []string
	if used := sub.mean / l.LimitCPUs; used > nearlyAll {
		w = append(w, fmt.Sprintf("average demand is %s of the advised limit of %s, which leaves little time to catch up: more load, or the same load at other moments of a period, may be throttled most of the time, so take a higher limit",
			quantity.Share(used), quantity.CPUs(l.LimitCPUs)))
	}
	if len(sub.wanted) == 1 && SampleInterval(sub.period) < sub.nominal {
		w = append(w, fmt.Sprintf("samples of %v hide when in a period demand comes: load in step with the periods may be throttled several times as often; record with --interval %v",
			sub.nominal, SampleInterval(sub.period)))
	}
	quota := quotaOf(l.LimitCPUs, sub.period)
	all, longest := sub.wanted[0].longestRun(quota, int64(l.BurstPercent/100*float64(quota)))
	if longest >= minThrottled && 2*longest >= all {
		w = append(w, fmt.Sprintf("most of the throttling at the advised limit of %s is one run of %v: a single event with a long wait; record for longer, or allow a smaller share if such events matter",
			quantity.CPUs(l.LimitCPUs), (time.Duration(longest)*sub.period).Round(time.Second/10)))
	}
	return w
}

func stepsToCPUs(steps int) float64 { return float64(steps) / limitSteps }

// quotaOf returns the CPU time per period of a limit.
func quotaOf(cpus float64, period time.Duration) int64 {
	return int64(math.Round(cpus * float64(period)))
}

// explain sets the reason.
func (l *Limit) explain(sub *subject) {
	if !l.Enough {
		return
	}
	with := "without burst"
	if l.BurstPercent > 0 {
		with = fmt.Sprintf("with a burst of %s", quantity.Share(l.BurstPercent/100))
	}
	l.Reason = fmt.Sprintf("%s, a limit of %s throttles %s of %d periods (wanted: at most %s); with %s confidence the limit is between %s and %s, and another recording shows %s to %s; fitted to the first half alone it is %s, which throttles %s of the second",
		with, quantity.CPUs(l.LimitCPUs), quantity.Share(l.ThrottleRatio), sub.periods(), quantity.Share(sub.goal.ThrottleRatio),
		quantity.Share(Confidence), quantity.Number(l.LowCPUs, 2), quantity.CPUs(l.HighCPUs), quantity.Share(l.LowThrottleRatio), quantity.Share(l.HighThrottleRatio), quantity.CPUs(l.HeldOut.LimitCPUs), quantity.Share(l.HeldOut.JudgedThrottleRatio))
}

// parallelismAt returns how many threads the quota and burst of a period can sustain.
func (sub *subject) parallelismAt(at limitAt, burst Burst) Parallelism {
	var p Parallelism
	if at.cpus == 0 {
		p.Reason = at.unknown(sub)
		return p
	}
	saved, which := burst.BurstPercent/100, "the advised burst"
	if recorded := sub.summary.Limits.Burst; recorded > 0 && sub.summary.Limits.Quota > 0 {
		saved, which = float64(recorded)/float64(sub.summary.Limits.Quota), "the present burst"
	}
	sustained := at.cpus * (1 + saved)
	p.Enough = true
	p.Threads = max(1, int(math.Floor(sustained+1e-9)))
	with := ""
	if saved > 0 {
		with = fmt.Sprintf(" and %s of %s", which, quantity.Share(saved))
	}
	p.Reason = fmt.Sprintf("%s%s can sustain %s for a whole period; more threads use it up sooner, and then all wait", at.name, with, quantity.Count(p.Threads, "thread"))
	if sustained < 1 {
		p.Reason = fmt.Sprintf("%s%s cannot sustain even one thread for a whole period; one thread waits least", at.name, with)
	}
	return p
}

const (
	// half is the utilisation above which burst helps little (Alibaba Cloud's advice).
	half = .5
	// aboveGoal is how many times the wanted share another recording may show under a limit that
	// was advised.
	aboveGoal = 3
)

// scaleOutAt compares the average demand with the limit. Demand that was throttled is at least the
// usage.
func (sub *subject) scaleOutAt(at limitAt, burst Burst) ScaleOut {
	s := ScaleOut{AtLimitCPUs: at.cpus}
	if at.cpus == 0 {
		s.Reason = at.unknown(sub)
		return s
	}
	s.Utilisation = sub.summary.CPUs() / at.cpus
	s.LowUtilisation, s.HighUtilisation = s.Utilisation, s.Utilisation
	s.Needed = s.Utilisation > nearlyAll || s.Utilisation > half && burst.Enough && burst.ThrottleRatioWith > aboveGoal*sub.goal.ThrottleRatio
	switch {
	case sub.pieces == nil:
		s.Reason = sub.unknown
	case s.Needed && sub.demand.Open > 0: // demand is even higher
		s.Enough = true
	case sub.demand.OpenShare >= sub.goal.ThrottleRatio:
		s.Reason = sub.unknown
	default:
		s.Reason = sub.unsure
		s.Enough = s.Reason == ""
	}
	return s
}

func (s *ScaleOut) explain(sub *subject, at limitAt, burst Burst) {
	if !s.Enough {
		return
	}
	least := ""
	if sub.demand.Open > 0 {
		least = "at least "
	}
	if s.Needed {
		s.Reason = fmt.Sprintf("average demand is %s%s, %s of %s; above half of a limit, little unused time is left to save for bursts: use more replicas or a higher limit",
			least, quantity.CPUs(sub.summary.CPUs()), quantity.Share(s.Utilisation), at.name)
		return
	}
	if s.Utilisation > half {
		s.Reason = fmt.Sprintf("average demand is %s, %s of %s, where a burst of %s leaves %s of the periods throttled; for more load use more replicas or a higher limit",
			quantity.CPUs(sub.summary.CPUs()), quantity.Share(s.Utilisation), at.name, quantity.Share(burst.BurstPercent/100), quantity.Share(burst.ThrottleRatioWith))
		return
	}
	s.Reason = fmt.Sprintf("average demand is %s, %s of %s, which is at most half", quantity.CPUs(sub.summary.CPUs()), quantity.Share(s.Utilisation), at.name)
}
