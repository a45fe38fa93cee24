package measure

import (
	"context"
	"fmt"
	"time"

	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/linux/sampler"
)

// recordEvery is the interval of samples of usage.
const recordEvery = 10 * time.Millisecond

// recorder samples the usage of services in a window.
type recorder struct {
	cancel context.CancelFunc
	done   chan error
	series []trace.Series // of each service, the sum over its replicas
}

// record begins to sample.
func (m machine) record(ctx context.Context, services []*service) (*recorder, error) {
	s, err := sampler.New(m.Groups, sampler.Options{Interval: recordEvery})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &recorder{cancel: cancel, done: make(chan error, 1), series: make([]trace.Series, len(services))}
	number := map[string]int{} // of the service, by group
	var groups []string
	for i, one := range services {
		for _, group := range one.groups() {
			number[group] = i
			groups = append(groups, group)
		}
	}
	s.Set(groups)
	go func() { r.done <- s.Run(ctx, func(t *sampler.Tick) error { r.add(t, number); return nil }) }()
	return r, nil
}

// add adds the samples of one tick, which have about the same time.
func (r *recorder) add(t *sampler.Tick, number map[string]int) {
	sums := make([]trace.Sample, len(r.series))
	for _, s := range t.Samples {
		sum := &sums[number[s.Group]]
		if sum.Interval == 0 {
			*sum = s.Sample
			continue
		}
		sum.Usage += s.Usage
		sum.Periods += s.Periods
		sum.Throttled += s.Throttled
		sum.ThrottledTime += s.ThrottledTime
		sum.Bursts += s.Bursts
		sum.BurstTime += s.BurstTime
	}
	for i, sum := range sums {
		if sum.Interval > 0 {
			r.series[i].Samples = append(r.series[i].Samples, sum)
		}
	}
}

// end ends sampling and returns the series of each service.
func (r *recorder) end() ([]trace.Series, error) {
	r.cancel()
	if err := <-r.done; err != nil && !isEnd(err) {
		return nil, fmt.Errorf("sample usage: %w", err)
	}
	return r.series, nil
}
