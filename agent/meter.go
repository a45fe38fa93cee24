package agent

import (
	"slices"
	"sync"
	"time"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/linux/sampler"
)

// meters add up what containers with a quota did. The sampler gives, ticks and metrics
// take; none waits for a round.
type meters struct {
	mu      sync.Mutex
	byGroup map[string]*meter
}

// meter is one container's, since its group was made or the agent has started.
type meter struct {
	limit   bandwidth.Limits
	pending trace.Sample     // since the last tick
	limits  bandwidth.Limits // as they were sampled last
	// doubtful says that they have changed since the last tick.
	doubtful bool

	samples                    uint64
	utilization                [len(utilizationBounds)]uint64 // samples up to each bound
	utilizationSum             float64
	periods, throttled, bursts uint64
	throttledTime, burstTime   time.Duration
	changes                    map[change]uint64
}

// change is a kind of change of a quota.
type change struct {
	raised bool
	reason string
}

// utilizationBounds are the histogram's, in parts of the limit.
var utilizationBounds = [...]float64{0.1, 0.25, 0.5, 0.75, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 5}

// set says which containers there are, and returns their groups.
func (m *meters) set(limited []control.Limited) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := make(map[string]*meter, len(limited))
	groups := make([]string, 0, len(limited))
	for i := range limited {
		group := limited[i].Group
		one := m.byGroup[group]
		if one == nil {
			one = &meter{changes: map[change]uint64{}}
		}
		one.limit = limited[i].Base
		now[group] = one
		groups = append(groups, group)
	}
	m.byGroup = now
	slices.Sort(groups)
	return groups
}

// take adds samples.
func (m *meters) take(samples []sampler.Sample) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range samples {
		if one := m.byGroup[samples[i].Group]; one != nil {
			one.add(&samples[i].Sample)
		}
	}
}

func (m *meter) add(s *trace.Sample) {
	m.pending.Interval += s.Interval
	m.pending.Usage += s.Usage
	m.pending.Periods += s.Periods
	m.pending.Throttled += s.Throttled
	m.doubtful = m.doubtful || s.Limits != m.limits
	m.limits = s.Limits

	m.periods += uint64(s.Periods)
	m.throttled += uint64(s.Throttled)
	m.bursts += uint64(s.Bursts)
	m.throttledTime += s.ThrottledTime
	m.burstTime += s.BurstTime
	limit := float64(m.limit.Quota) / float64(m.limit.Period) * float64(s.Interval)
	if !(limit > 0) { // of a group that is told of before its limit is known
		return
	}
	utilization := float64(s.Usage) / limit
	m.samples++
	m.utilizationSum += utilization
	for i, bound := range utilizationBounds {
		if utilization <= bound {
			m.utilization[i]++
		}
	}
}

// drain returns what containers did since the last time, by group, and the groups whose
// limits are not what they were.
func (m *meters) drain() (samples map[string]trace.Sample, doubtful []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	samples = make(map[string]trace.Sample, len(m.byGroup))
	for group, one := range m.byGroup {
		if one.pending.Interval > 0 {
			samples[group] = one.pending
			one.pending = trace.Sample{}
		}
		if one.doubtful {
			doubtful = append(doubtful, group)
			one.doubtful = false
		}
	}
	return samples, doubtful
}

// changed counts a change of a container's quota.
func (m *meters) changed(c control.QuotaChange) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if one := m.byGroup[c.Container.Group]; one != nil {
		one.changes[change{c.Raised, c.Reason.String()}]++
	}
}
