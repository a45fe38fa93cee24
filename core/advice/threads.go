package advice

import (
	"fmt"
	"math"

	"pinfold.dev/pinfold/core/quantity"
)

// parallelismAt returns how many threads quota and burst of a period can feed.
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
	fed := at.cpus * (1 + saved)
	p.Enough = true
	p.Threads = max(1, int(math.Floor(fed+1e-9)))
	with := ""
	if saved > 0 {
		with = fmt.Sprintf(" and %s of %s", which, quantity.Share(saved))
	}
	switch {
	case fed < 1:
		p.Reason = fmt.Sprintf("%s%s cannot feed even one thread for one whole period; one waits least", at.name, with)
	default:
		p.Reason = fmt.Sprintf("%s%s can feed %s for one whole period; more use it up sooner, and then all wait", at.name, with, quantity.Count(p.Threads, "thread"))
	}
	return p
}

// half is the utilisation above which burst helps little (Alibaba Cloud's advice).
const half = .5

// scaleOutAt compares the average with the limit. What was throttled wanted at least what it used.
func (sub *subject) scaleOutAt(at limitAt) ScaleOut {
	s := ScaleOut{AtLimitCPUs: at.cpus}
	if at.cpus == 0 {
		s.Reason = at.unknown(sub)
		return s
	}
	s.Utilisation = sub.summary.CPUs() / at.cpus
	s.LowUtilisation, s.HighUtilisation = s.Utilisation, s.Utilisation
	s.Needed = s.Utilisation > half
	switch {
	case sub.blocks == nil:
		s.Reason = sub.unknown
	case s.Needed && sub.demand.Open > 0: // and more than that was wanted
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
		when := ""
		if burst.Enough && burst.ReachesGoal {
			when = "for more load "
		}
		s.Reason = fmt.Sprintf("it wants %s%s on average, %s of %s; above half of a limit little is left unused to save up for bursts: %stake more replicas or a higher limit",
			least, quantity.CPUs(sub.summary.CPUs()), quantity.Share(s.Utilisation), at.name, when)
		return
	}
	s.Reason = fmt.Sprintf("it wants %s on average, %s of %s, and not above half of it", quantity.CPUs(sub.summary.CPUs()), quantity.Share(s.Utilisation), at.name)
}
