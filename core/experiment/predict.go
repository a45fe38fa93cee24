package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"pinfold.dev/pinfold/core/demand"
	"pinfold.dev/pinfold/core/interference"
	"pinfold.dev/pinfold/core/trace"
)

const (
	// predictedPeriods is how many periods a prediction simulates.
	predictedPeriods = 200_000
	// predictedResamples is how many resamples of a recording tell how exact a prediction is. In each,
	// resampledPeriods are simulated.
	predictedResamples = 50
	resampledPeriods   = 20_000
)

// predictable are the figures that can be predicted: averages over periods.
func predictable() []Figure { return []Figure{Full, Throttled, Backlog} }

// Predict simulates a condition in which the replicas of the first service have a limit, and
// returns the values of the figures that can be predicted there. The demand of a replica in a
// period is drawn from the usage of one that ran alone and without a limit, in another condition.
// usage is the recording of the run. Intervals are those of the recording: by bootstrap over its
// rounds. Draws are the same in each call.
func (r Result) Predict(ctx context.Context, condition, from string, usage *trace.Recording) (map[Figure]Value, error) {
	service, err := r.First(condition)
	if err != nil {
		return nil, err
	}
	limits := service.Limits()
	quota, _ := limits.CPUs() // there is one: see checkPrediction
	alone, err := r.recorded(from, usage, limits.Period)
	if err != nil {
		return nil, err
	}
	simulate := func(times []int, periods int64) (map[Figure]float64, error) {
		var demands []float64
		for round, n := range times {
			for _, cpus := range alone[round] {
				for range n {
					demands = append(demands, cpus/quota)
				}
			}
		}
		empirical, err := demand.NewEmpirical(demands)
		if err != nil {
			return nil, err
		}
		result, err := interference.Simulate(ctx, interference.Config{
			Groups:   []interference.Group{{Count: service.Count(), Quota: quota, Burst: float64(limits.Burst) / float64(limits.Quota), Demand: demand.Independent{Distribution: empirical}}},
			Capacity: float64(r.Environment.CPUs), Rule: interference.Staggered, Periods: periods, Workers: runtime.GOMAXPROCS(0),
			Random: func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(r.Config.Seed, n)) },
		})
		if err != nil {
			return nil, err
		}
		group := result.Groups[0]
		return map[Figure]float64{Full: result.Full.Value, Throttled: group.ThrottleRatio.Value, Backlog: group.Backlog.Value * float64(limits.Quota.Microseconds()) / 1000}, nil
	}
	rounds := sorted(alone)
	whole, err := simulate(each(rounds), predictedPeriods)
	if err != nil {
		return nil, err
	}
	n := predictedResamples
	if len(rounds) < MinRounds { // there will be no interval
		n = 0
	}
	resampled := map[Figure][]float64{}
	for times := range resamples(rounds, n) {
		figures, err := simulate(times, resampledPeriods)
		if err != nil {
			return nil, fmt.Errorf("with a sample of the rounds: %w", err)
		}
		for f, v := range figures {
			resampled[f] = append(resampled[f], v)
		}
	}
	values := map[Figure]Value{}
	for f, v := range whole {
		s := spread{deviation: deviation(resampled[f], len(rounds)), freedom: blocks(len(rounds)) - 1}
		value, _ := around(v, len(rounds), s, 1)
		value.Low = max(0, value.Low)
		values[f] = value
	}
	return values, nil
}

// recorded returns the demand in CPUs of the first service in undisturbed windows of a condition,
// per period, by round.
func (r Result) recorded(condition string, usage *trace.Recording, period time.Duration) (map[int][]float64, error) {
	group := Window{Condition: condition}.Group(r.Config.Services[0].Name)
	if usage == nil {
		return nil, errors.New("the recording of the usage is missing")
	}
	i := slices.IndexFunc(usage.Series, func(s trace.Series) bool { return s.Group == group })
	if i < 0 {
		return nil, fmt.Errorf("the recording has no group %s", group)
	}
	byRound := map[int]*trace.Series{}
	for _, w := range r.Windows {
		if w.Condition != condition || w.Disturbed != "" {
			continue
		}
		s := cmp.Or(byRound[w.Round], &trace.Series{})
		for _, sample := range usage.Series[i].Samples {
			if sample.Begin() >= w.From-usage.Interval/2 && sample.At <= w.To+usage.Interval/2 {
				s.Samples = append(s.Samples, sample)
			}
		}
		byRound[w.Round] = s
	}
	err := errors.New("no whole period was recorded")
	cpus := map[int][]float64{}
	for round, s := range byRound {
		d, wrong := s.Demand(usage.Interval, period)
		if wrong != nil {
			err = wrong
			continue
		}
		cpus[round] = d.CPUs
	}
	if len(cpus) == 0 {
		return nil, err
	}
	return cpus, nil
}
