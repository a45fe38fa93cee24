package advice

import (
	"fmt"
	"math"
	"slices"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/quantity"
)

// finest is the longest sampling interval that shows how many threads run at a time.
const finest = 20 * time.Millisecond

// bindingAt queues work behind as many CPUs as a limit has.
func (sub *subject) bindingAt(at limitAt) Binding {
	var b Binding
	b.CPUs = max(1, int(math.Ceil(at.cpus-1e-9)))
	if sub.nominal > finest {
		b.Reason = fmt.Sprintf("not enough data: samples of %v hide how many threads run at a time; record with --interval %v", sub.nominal, finest)
		return b
	}
	if b.Reason = at.obstacle(sub); b.Reason != "" {
		return b
	}
	d, err := sub.series.Demand(sub.nominal, sub.nominal)
	if err != nil {
		b.Reason = fmt.Sprintf("not enough data: %v", err)
		return b
	}
	b.Enough = true
	b.queue(amountsOf(d.CPUs, sub.nominal), sub.nominal)
	b.PeakCPUs = slices.Max(d.CPUs)
	b.Pays = b.WaitingShare <= sub.goal.ThrottleRatio
	b.explain(sub, at)
	return b
}

// queue computes the waits of the demands of consecutive samples on CPUs CPUs.
func (b *Binding) queue(wanted amounts, interval time.Duration) {
	room := int64(b.CPUs) * int64(interval)
	var backlog, longest int64
	waiting, waits, work := 0, 0.0, 0.0
	for _, d := range wanted {
		backlog = bandwidth.NextDebt(backlog, d, room)
		if backlog > 0 {
			waiting++
		}
		longest = max(longest, backlog)
		waits += float64(d) * float64(backlog) / float64(b.CPUs)
		work += float64(d)
	}
	b.WaitingShare = float64(waiting) / float64(len(wanted))
	b.LongestWait.Duration = time.Duration(longest / int64(b.CPUs))
	if work > 0 {
		b.AverageWait.Duration = time.Duration(waits / work)
	}
}

func (b *Binding) explain(sub *subject, at limitAt) {
	cpus := quantity.Count(b.CPUs, "CPU")
	whole := ""
	if math.Abs(float64(b.CPUs)-at.cpus) > 1e-9 {
		whole = fmt.Sprintf(" (bound containers need a whole number, so the limit would be %d)", b.CPUs)
	}
	if b.Pays {
		waits := "never wait: binding costs nothing"
		if b.WaitingShare > 0 {
			waits = fmt.Sprintf("wait in %s of the time, up to %s: binding costs little", quantity.Share(b.WaitingShare), stall(b.LongestWait.Duration))
		}
		b.Reason = fmt.Sprintf("with %s of its own%s, used at %s, work would %s, and gains locality of caches and memory",
			cpus, whole, quantity.Share(sub.summary.CPUs()/float64(b.CPUs)), waits)
		return
	}
	b.Reason = fmt.Sprintf("with %s of its own%s, work would wait in %s of the time, up to %s, because it wants up to %s at a time; unbound, it may run on more CPUs at once, so binding does not pay",
		cpus, whole, quantity.Share(b.WaitingShare), stall(b.LongestWait.Duration), quantity.CPUs(b.PeakCPUs))
}
