package colocation

import (
	"maps"
	"slices"
	"time"
)

// A pod is starved if a thread of it has waited for starvedWaits times MaxWait. It runs outside of
// the scheduler for rescueWaits times MaxWait then.
const (
	starvedWaits = 4
	rescueWaits  = 4
)

// Rescue decides which batch pods run outside of a scheduler for batch work for a while, because
// other work leaves that scheduler no CPU at all.
type Rescue struct {
	// MaxWait is the time after which the scheduler runs a waiting thread, if it has a CPU.
	MaxWait time.Duration
	// Count is how often a pod was taken out of the scheduler.
	Count uint64
	// outside are the times at which pods were taken out of the scheduler.
	outside map[string]time.Time
}

// Reset puts all pods back into the scheduler, which has been loaded again.
func (r *Rescue) Reset() { r.outside = nil }

// Step takes how long the threads of each pod have waited, and returns the pods that are to run in
// the scheduler and outside of it, sorted.
func (r *Rescue) Step(now time.Time, waiting map[string]time.Duration) (inside, outside []string) {
	before := r.outside
	r.outside = map[string]time.Time{}
	for _, pod := range slices.Sorted(maps.Keys(waiting)) {
		since, is := before[pod]
		if !is && waiting[pod] > starvedWaits*r.MaxWait {
			since, is = now, true
			r.Count++
		}
		if is && now.Sub(since) < rescueWaits*r.MaxWait {
			r.outside[pod] = since
			outside = append(outside, pod)
		} else {
			inside = append(inside, pod)
		}
	}
	return inside, outside
}

// IsOutside reports whether a pod runs outside of the scheduler.
func (r *Rescue) IsOutside(pod string) bool {
	_, is := r.outside[pod]
	return is
}
