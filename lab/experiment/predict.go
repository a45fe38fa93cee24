package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"pinfold.dev/pinfold/core/demand"
	"pinfold.dev/pinfold/core/interference"
	"pinfold.dev/pinfold/core/trace"
)

// Periods that a prediction simulates, and each of the predictions of resampled rounds, which give its interval.
const (
	predictedPeriods   = 200_000
	resampledPeriods   = 100_000
	predictedResamples = 30
)

// Prediction is a predicted figure.
type Prediction struct {
	Value
	// More is how much more was measured, with an interval from the same rounds drawn for both. It has no rounds if
	// nothing was measured.
	More Value
}

// Predict simulates a condition in which the replicas of the first service have a limit, and
// returns the figures there that can be predicted. The demand of a replica is drawn from the usage
// of one that ran alone and without a limit, in the condition from, in pieces. Its mean is what the replicas
// used, if that was measured: one that runs alone for some minutes may have wanted less or more. Each replica's
// periods begin at a time of their own. usage is the recording of the run. Draws are the same in each call.
func (r Result) Predict(ctx context.Context, condition, from string, usage *trace.Recording) (map[Figure]Prediction, error) {
	service, err := r.First(condition)
	if err != nil {
		return nil, err
	}
	limits := service.Limits()
	quota, _ := limits.CPUs() // there is one: see checkPrediction
	alone, slots, err := r.recorded(from, usage, limits.Period)
	if err != nil {
		return nil, err
	}
	measured, _ := r.windows(Used, condition, "")
	used := meanOf(Used, measured)
	predict := func(drawn []int32, periods int64) (map[Figure]float64, error) {
		var rounds [][]float64
		for i, n := range drawn {
			rounds = append(rounds, slices.Repeat([][]float64{alone[i]}, int(n))...)
		}
		sequence := slices.Concat(rounds...)
		for i := range sequence {
			sequence[i] /= quota * float64(slots)
		}
		length, _ := demand.BlockLength(sequence)
		blocks, err := demand.NewBlocks(length, sequence)
		if used := used(drawn); err == nil && !math.IsNaN(used) {
			blocks, err = blocks.WithMean(used / float64(service.Count()*slots) / quota)
		}
		if err != nil {
			return nil, err
		}
		result, err := interference.Simulate(ctx, interference.Config{
			Groups:   []interference.Group{{Count: service.Count(), Quota: quota, Burst: float64(limits.Burst) / float64(limits.Quota), Demand: blocks}},
			Capacity: float64(r.Environment.CPUs), Periods: periods, Workers: runtime.GOMAXPROCS(0), Rule: interference.Apart, Slots: slots, Busy: AllUsed,
			Random: func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(r.Config.Seed, n)) },
		})
		if err != nil {
			return nil, err
		}
		return map[Figure]float64{Full: result.Busy.Value, Throttled: result.Groups[0].ThrottleRatio.Value}, nil
	}
	expected, err := predict(once(len(alone)), predictedPeriods)
	if err != nil {
		return nil, err
	}
	rounds := len(slices.DeleteFunc(slices.Clone(alone), func(round []float64) bool { return len(round) == 0 }))
	resampled := map[Figure][]float64{}
	if rounds >= MinRounds {
		for _, drawn := range draws(len(alone))[:predictedResamples] {
			figures, err := predict(drawn, resampledPeriods)
			if err != nil {
				return nil, fmt.Errorf("rounds that were drawn again: %w", err)
			}
			for f, x := range figures {
				resampled[f] = append(resampled[f], x)
			}
		}
	}
	values := map[Figure]Prediction{}
	for f, x := range expected {
		p := estimates{value: x, resampled: resampled[f], rounds: rounds, effective: float64(rounds)}
		prediction := Prediction{Value: p.valueOf(f)}
		if m := r.estimate(f, condition, ""); m.rounds > 0 {
			prediction.More, _ = m.minus(p).bounds(false)
		}
		values[f] = prediction
	}
	return values, nil
}

// recorded returns the demand in CPUs of the first service, per slot of a period, in the window of a condition of
// each round: nothing where that is disturbed or too short.
func (r Result) recorded(condition string, usage *trace.Recording, period time.Duration) (rounds [][]float64, slots int, err error) {
	group := Window{Condition: condition}.Group(r.Config.Services[0].Name)
	if usage == nil {
		return nil, 0, errors.New("the recording of the usage is missing")
	}
	i := slices.IndexFunc(usage.Series, func(s trace.Series) bool { return s.Group == group })
	if i < 0 {
		return nil, 0, fmt.Errorf("the recording has no group %s", group)
	}
	if slots = int(period / usage.Interval); slots == 0 {
		return nil, 0, fmt.Errorf("the recording's samples of %v are longer than the period of %v", usage.Interval, period)
	}
	windows, _ := r.windows(Used, condition, "")
	rounds = make([][]float64, len(windows))
	for at, w := range windows {
		if w == nil {
			continue
		}
		window := trace.Series{}
		for _, sample := range usage.Series[i].Samples {
			if sample.Begin() >= w.From-usage.Interval/2 && sample.At <= w.To+usage.Interval/2 {
				window.Samples = append(window.Samples, sample)
			}
		}
		d, err := window.Demand(usage.Interval, period/time.Duration(slots))
		switch {
		case errors.Is(err, trace.ErrTooShort):
		case err != nil:
			return nil, 0, err
		default:
			rounds[at] = d.CPUs
		}
	}
	if len(slices.Concat(rounds...)) == 0 {
		return nil, 0, errors.New("no undisturbed window was recorded")
	}
	return rounds, slots, nil
}

// predicted are the figures that can be predicted.
func predicted() []Figure { return []Figure{Full, Throttled} }
