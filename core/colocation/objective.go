package colocation

import (
	"time"

	"pinfold.dev/pinfold/core/quantity"
)

const (
	// windowTicks is the number of ticks for which an objective is checked, and missesAllowed how many
	// of these may miss it: the objective is a 99th percentile.
	windowTicks   = 100
	missesAllowed = 1
	// A window that misses the objective multiplies the threshold by tighten, and one that meets it
	// adds loosen, up to the configured threshold.
	tighten = 0.8
	loosen  = 0.02
	// After a change that many ticks do not count, so that its effect can be seen.
	settleTicks = 10
)

// objective lowers the threshold while online pods wait too long for CPUs.
type objective struct {
	most          time.Duration // 0 for no objective
	ticks, misses int
	factor        float64 // of the configured threshold
}

// observe records a tick. Waiting counts only while batch work uses more than the floor: otherwise
// it is not the reason, or there is nothing left to do about it.
func (o *objective) observe(t Tick, floor quantity.CPUs) {
	if o.most == 0 || t.Unsampled || t.WaitUnknown {
		return
	}
	if o.ticks++; o.ticks <= 0 {
		return
	}
	if t.Waited > o.most && t.Batch > max(floor, t.band()) {
		o.misses++
	}
	switch {
	case o.misses > missesAllowed:
		o.factor *= tighten
		o.ticks = -settleTicks
	case o.ticks < windowTicks:
		return
	default:
		o.factor = min(1, o.factor+loosen)
		o.ticks = 0
	}
	o.misses = 0
}
