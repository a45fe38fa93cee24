package experiment

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"pinfold.dev/pinfold/core/demand"
	"pinfold.dev/pinfold/core/interference"
	"pinfold.dev/pinfold/core/trace"
)

// predictedPeriods is how many periods a prediction simulates.
const predictedPeriods = 200_000

// Predict simulates a condition in which the replicas of the first service have a limit, and
// returns the figure there. The demand of a replica in a period is
// drawn from the usage of one that ran alone and without a limit, in the condition p.From. usage is
// the recording of the run. Draws are the same in each call.
func (r Result) Predict(ctx context.Context, p Published, usage *trace.Recording) (float64, error) {
	service, err := r.First(p.Condition)
	if err != nil {
		return 0, err
	}
	limits := service.Limits()
	quota, _ := limits.CPUs() // there is one: see checkPrediction
	alone, err := r.recorded(p.From, usage, limits.Period)
	if err != nil {
		return 0, err
	}
	for i := range alone {
		alone[i] /= quota
	}
	empirical, err := demand.NewEmpirical(alone)
	if err != nil {
		return 0, err
	}
	result, err := interference.Simulate(ctx, interference.Config{
		Groups:   []interference.Group{{Count: service.Count(), Quota: quota, Burst: float64(limits.Burst) / float64(limits.Quota), Demand: demand.Independent{Distribution: empirical}}},
		Capacity: float64(r.Environment.CPUs), Periods: predictedPeriods, Workers: 1,
		Random: func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(r.Config.Seed, n)) },
	})
	if err != nil {
		return 0, err
	}
	switch p.Figure {
	case Throttled:
		return result.Groups[0].ThrottleRatio.Value, nil
	case Backlog:
		return result.Groups[0].Backlog.Value * float64(limits.Quota.Microseconds()) / 1000, nil
	}
	return 1 - result.ProbabilityWCET1.Value, nil
}

// recorded returns the demand in CPUs of the first service in undisturbed windows of a condition,
// per period.
func (r Result) recorded(condition string, usage *trace.Recording, period time.Duration) ([]float64, error) {
	group := Window{Condition: condition}.Group(r.Config.Services[0].Name)
	if usage == nil {
		return nil, errors.New("the recording of the usage is missing")
	}
	i := slices.IndexFunc(usage.Series, func(s trace.Series) bool { return s.Group == group })
	if i < 0 {
		return nil, fmt.Errorf("the recording has no group %s", group)
	}
	undisturbed := trace.Series{}
	for _, sample := range usage.Series[i].Samples {
		if slices.ContainsFunc(r.Windows, func(w Window) bool {
			return w.Condition == condition && w.Disturbed == "" && sample.Begin() >= w.From-usage.Interval/2 && sample.At <= w.To+usage.Interval/2
		}) {
			undisturbed.Samples = append(undisturbed.Samples, sample)
		}
	}
	d, err := undisturbed.Demand(usage.Interval, period)
	return d.CPUs, err
}

// predicted are the figures that can be predicted.
func predicted() []Figure { return []Figure{Full, Throttled, Backlog} }
