package colocation

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"

	"pinfold.dev/pinfold/core/quantity"
)

const (
	resamples  = 10_000
	confidence = 0.95
	// leastPairs is the least number of pairs from which an interval is computed.
	leastPairs = 12
)

// Ratio is how many times as long a latency is as alone: an average over pairs of windows, and an
// interval that contains it with a confidence of 95%.
type Ratio struct{ Average, Low, High float64 }

// Comparison is a condition beside the windows alone.
type Comparison struct {
	Condition string
	// Pairs is the number of rounds in which both windows were undisturbed. With fewer than 12,
	// there are no ratios, and Conclusive is false.
	Pairs      int
	Conclusive bool
	// Geometric means, which a few windows with very long latencies change, and the median, which
	// they do not.
	P50, P90, P99, P999 Ratio
	MedianP99           Ratio
	// Medians over the windows of the pairs: latencies in microseconds, shares of the time of all CPUs.
	Latency     [4]float64 // p50, p90, p99, p99.9
	Used, Batch quantity.Share
	Waited      float64 // by the service, per request, in microseconds
}

// quantiles returns p50, p90, p99 and p99.9.
func (w Window) quantiles() [4]float64 { return [4]float64{w.P50, w.P90, w.P99, w.P999} }

// Compare compares each condition with the windows alone, in the order of conditions. seed is for the
// bootstrap.
func Compare(conditions []Condition, windows []Window, seed uint64) []Comparison {
	byRound := map[int]map[string]Window{}
	for _, w := range windows {
		if w.Disturbed != "" {
			continue
		}
		if byRound[w.Round] == nil {
			byRound[w.Round] = map[string]Window{}
		}
		byRound[w.Round][w.Condition] = w
	}
	var all []Comparison
	for _, c := range conditions {
		var alone, with []Window
		for _, round := range slices.Sorted(maps.Keys(byRound)) {
			a, haveAlone := byRound[round][Alone]
			b, have := byRound[round][c.Name]
			if haveAlone && have {
				alone, with = append(alone, a), append(with, b)
			}
		}
		all = append(all, compare(c.Name, alone, with, rand.New(rand.NewPCG(seed, 0))))
	}
	return all
}

// compare compares pairs of windows.
func compare(name string, alone, with []Window, random *rand.Rand) Comparison {
	c := Comparison{Condition: name, Pairs: len(with), Conclusive: len(with) >= leastPairs}
	if !c.Conclusive {
		return c
	}
	for q, ratio := range []*Ratio{&c.P50, &c.P90, &c.P99, &c.P999} {
		logs, latencies := make([]float64, len(with)), make([]float64, len(with))
		for i := range with {
			latencies[i] = with[i].quantiles()[q]
			logs[i] = math.Log(latencies[i] / alone[i].quantiles()[q])
		}
		*ratio = bootstrap(logs, mean, random)
		if ratio == &c.P99 {
			c.MedianP99 = bootstrap(logs, median, random)
		}
		c.Latency[q] = median(latencies)
	}
	var used, batch, waited []float64
	for _, w := range with {
		used, batch, waited = append(used, float64(w.Used())), append(batch, float64(w.Batch)), append(waited, w.Waited)
	}
	c.Used, c.Batch = quantity.Share(median(used)), quantity.Share(median(batch))
	c.Waited = median(waited)
	return c
}

// bootstrap returns an average of ratios, given as logarithms, with a percentile interval. average may
// change the order of its argument.
func bootstrap(logs []float64, average func([]float64) float64, random *rand.Rand) Ratio {
	averages, sample := make([]float64, resamples), make([]float64, len(logs))
	for i := range averages {
		for j := range sample {
			sample[j] = logs[random.IntN(len(logs))]
		}
		averages[i] = average(sample)
	}
	slices.Sort(averages)
	at := func(q float64) float64 { return math.Exp(stat.Quantile(q, stat.Empirical, averages, nil)) }
	return Ratio{Average: math.Exp(average(slices.Clone(logs))), Low: at((1 - confidence) / 2), High: at((1 + confidence) / 2)}
}

func mean(values []float64) float64 { return stat.Mean(values, nil) }

func median(values []float64) float64 {
	slices.Sort(values)
	return stat.Quantile(0.5, stat.Empirical, values, nil)
}
