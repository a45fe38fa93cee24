package colocation

import (
	"math"
	"slices"
	"time"

	"pinfold.dev/pinfold/core/quantity"
)

const (
	// slots is the number of intervals of slotLength whose means count.
	slots      = 30
	slotLength = 10 * time.Second
	// capacityStep is the unit of the capacity.
	capacityStep = 0.1
)

// capacity offers what the others leave in the busiest of the last intervals.
type capacity struct {
	means   []quantity.CPUs // what was left in whole intervals, the latest last
	sum     quantity.CPUs   // of the samples of the present interval
	samples int
	begun   time.Duration // when it began
	offered quantity.CPUs
}

// observe records what the others leave, and changes what is offered at the end of an interval. The
// first sample counts until then.
func (c *capacity) observe(t Tick, available quantity.CPUs) {
	if c.samples > 0 && t.Now-c.begun >= slotLength {
		c.means = append(c.means, c.sum/quantity.CPUs(c.samples))
		c.means = c.means[max(0, len(c.means)-slots):]
		c.sum, c.samples = 0, 0
		c.offer(slices.Min(c.means))
	}
	if c.samples == 0 {
		c.begun = t.Now
		if len(c.means) == 0 {
			c.offer(available)
		}
	}
	c.sum += available
	c.samples++
}

func (c *capacity) offer(available quantity.CPUs) {
	c.offered = capacityStep * quantity.CPUs(math.Floor(max(0, float64(available))/capacityStep+1e-9))
}
