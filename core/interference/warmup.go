package interference

import "context"

// relaxations is how many relaxation times of the backlog a warm-up lasts.
const relaxations = 4

// longestWarmUp is in periods of a replica: what is counted should not be the least of it.
func (p *plan) longestWarmUp() int64 { return max(minWarmUp, p.perReplica) }

// warm lets the replicas forget that they began idle. How long that takes depends on the load,
// and on how uneven demand is and what it remembers, which shows only when it is drawn.
func (s *simulation) warm(ctx context.Context) error {
	for {
		batches, err := s.each(ctx, func(ctx context.Context, r *replica) (batch, error) {
			return r.warm(ctx, s.warmUp, s.progress)
		})
		if err != nil {
			return err
		}
		s.wantedWarmUp = max(s.wantedWarmUp, s.settled(batches))
		longest := min(s.wantedWarmUp, s.longestWarmUp())
		if s.warmUp >= longest {
			break
		}
		s.warmUp = min(max(2*s.warmUp, s.wantedWarmUp), s.longestWarmUp())
	}
	for _, r := range s.replicas {
		r.begin()
	}
	return nil
}

// settled returns after how many periods backlog has been forgotten: that of each group for
// want of tokens, and that of all for want of room. The variance per period is that of sums
// over the batches, so that memory counts as far as it is shorter than a batch; where it is
// longer, the figure grows with the batches.
func (p *plan) settled(batches []batch) int64 {
	longest, wanted := 0.0, 0.0
	for i, k := range p.kinds {
		mean := estimate(batches, func(b batch) float64 { return b.groups[i].demand / float64(b.periods) / float64(k.quota) })
		longest = max(longest, relaxation(mean, batches, 1-k.mean)/float64(k.count))
		wanted += k.mean * float64(k.quota) * float64(k.count)
	}
	whole := estimate(batches, func(b batch) float64 {
		total := 0.0
		for _, g := range b.groups {
			total += g.demand
		}
		return total / float64(b.periods)
	})
	longest = max(longest, relaxation(whole, batches, float64(p.capacity)-wanted))
	return int64(min(relaxations*longest, mostWarmUp))
}

// relaxation returns in how many periods a random walk with a floor forgets where it was, but
// for 1/e, by the diffusion that is like it: 2 variance/drift^2.
func relaxation(mean Estimate, batches []batch, drift float64) float64 {
	spread := mean.StandardError * mean.StandardError * float64(len(batches))
	return 2 * spread * float64(batches[0].periods) / (drift * drift)
}
