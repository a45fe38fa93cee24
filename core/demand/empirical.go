package demand

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"
)

// Empirical draws from what was measured, each sample as likely as any other and without
// regard to their order.
type Empirical struct {
	sorted []float64
	mean   float64
}

// NewEmpirical returns the distribution of samples, at least one of which is above 0.
// They are copied.
func NewEmpirical(samples []float64) (*Empirical, error) {
	if err := checkAmounts(samples); err != nil {
		return nil, err
	}
	sorted := slices.Clone(samples)
	slices.Sort(sorted)
	return &Empirical{sorted: sorted, mean: average(sorted)}, nil
}

// WithMean returns the distribution stretched to another mean.
func (e *Empirical) WithMean(mean float64) (*Empirical, error) {
	scaled, err := scaledTo(e.sorted, e.mean, mean)
	if err != nil {
		return nil, err
	}
	return &Empirical{sorted: scaled, mean: mean}, nil
}

// Mean of the samples.
func (e *Empirical) Mean() float64 { return e.mean }

// CDF is the share of samples that are at most x.
func (e *Empirical) CDF(x float64) float64 {
	if math.IsNaN(x) {
		return 0
	}
	above := sort.Search(len(e.sorted), func(i int) bool { return e.sorted[i] > x })
	return float64(above) / float64(len(e.sorted))
}

// Draw returns one of the samples.
func (e *Empirical) Draw(r *rand.Rand) float64 { return e.sorted[r.IntN(len(e.sorted))] }

func average(samples []float64) float64 {
	sum := 0.0
	for _, s := range samples {
		sum += s
	}
	return sum / float64(len(samples))
}

// scaledTo returns the samples, whose mean is given, stretched to another.
func scaledTo(samples []float64, from, to float64) ([]float64, error) {
	if err := checkPositive("the mean", to); err != nil {
		return nil, err
	}
	scaled := make([]float64, len(samples))
	for i, s := range samples {
		scaled[i] = s * (to / from)
	}
	return scaled, checkAmounts(scaled)
}
