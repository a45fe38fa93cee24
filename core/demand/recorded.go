package demand

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"gonum.org/v1/gonum/stat"
)

// checkAmounts returns an error if samples are impossible, or if no demand can be derived from
// them.
func checkAmounts(samples []float64) error {
	if len(samples) == 0 {
		return invalid("there are no samples; record for longer")
	}
	sum := 0.0
	for i, s := range samples {
		if !(s >= 0) || math.IsInf(s, 1) {
			return invalid("sample %d is %v; a demand is a number, 0 or more", i, s)
		}
		sum += s
	}
	if !(sum > 0) || math.IsInf(sum, 1) {
		return invalid("the samples sum to %v; record while the group works", sum)
	}
	return nil
}

// Empirical draws measured samples, each with the same probability.
type Empirical struct {
	known
	sorted []float64
}

// NewEmpirical returns the distribution of samples, at least one of which is above 0. It copies
// them.
func NewEmpirical(samples []float64) (*Empirical, error) {
	if err := checkAmounts(samples); err != nil {
		return nil, err
	}
	sorted := slices.Sorted(slices.Values(samples))
	return &Empirical{known{stat.Mean(sorted, nil)}, sorted}, nil
}

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

// Replay repeats a recording in the order of time.
type Replay struct {
	known
	phases [][]float64 // of samples
}

// NewReplay returns a process of samples, one per period. The same recording may be given in several
// phases, whose periods begin at other times; each repetition is one of these. It copies them.
func NewReplay(phases ...[]float64) (*Replay, error) {
	p := &Replay{}
	for _, samples := range phases {
		if err := checkAmounts(samples); err != nil {
			return nil, err
		}
		p.phases = append(p.phases, slices.Clone(samples))
	}
	p.mean = stat.Mean(slices.Concat(phases...), nil)
	return p, nil
}

// WithMean returns the replay scaled to another mean.
func (p *Replay) WithMean(mean float64) (*Replay, error) {
	if err := checkPositive("the mean", mean); err != nil {
		return nil, err
	}
	scaled := &Replay{known{mean}, nil}
	for _, samples := range p.phases {
		samples = slices.Clone(samples)
		for i := range samples {
			samples[i] *= mean / p.mean
		}
		if err := checkAmounts(samples); err != nil {
			return nil, err
		}
		scaled.phases = append(scaled.phases, samples)
	}
	return scaled, nil
}

// Start begins at a random sample.
func (p *Replay) Start(r *rand.Rand) Source { return p.start(r) }

func (p *Replay) start(r *rand.Rand) *replaySource {
	s := &replaySource{phases: p.phases}
	s.choose(r)
	s.next = r.IntN(len(s.samples))
	return s
}

type replaySource struct {
	phases  [][]float64
	samples []float64 // of one
	next    int
}

// choose chooses a phase.
func (s *replaySource) choose(r *rand.Rand) {
	s.samples = s.phases[0]
	if n := len(s.phases); n > 1 {
		s.samples = s.phases[r.IntN(n)]
	}
}

func (s *replaySource) Next(r *rand.Rand) float64 {
	x := s.samples[s.next]
	if s.next++; s.next == len(s.samples) {
		s.choose(r)
		s.next = 0
	}
	return x
}

// Blocks concatenates pieces of a recording.
type Blocks struct {
	Replay
	length float64
}

// NewBlocks returns the stationary bootstrap of samples, one per period. The lengths of pieces are
// geometrically distributed with a mean of length >= 1 periods; choose several times the memory of
// the demand (see BlockLength). Length 1 draws each sample independently. A piece that reaches the
// end of the recording continues at its beginning, so that all samples have the same probability.
// With several phases, as of [NewReplay], each piece is from one of these.
func NewBlocks(length float64, phases ...[]float64) (*Blocks, error) {
	replay, err := NewReplay(phases...)
	if err != nil {
		return nil, err
	}
	if err := checkPositive("the length of blocks", length); err != nil {
		return nil, err
	}
	if n := len(phases[0]); length < 1 || length > float64(n) {
		return nil, invalid("blocks of %v periods; take 1 to the %d of the recording", length, n)
	}
	return &Blocks{*replay, length}, nil
}

// WithMean returns the same process scaled to another mean.
func (b *Blocks) WithMean(mean float64) (*Blocks, error) {
	replay, err := b.Replay.WithMean(mean)
	if err != nil {
		return nil, err
	}
	return &Blocks{*replay, b.length}, nil
}

// Start begins with a piece at a random sample.
func (b *Blocks) Start(r *rand.Rand) Source { return &blocksSource{b.start(r), 1 / b.length} }

type blocksSource struct {
	*replaySource
	end float64 // probability that a piece ends after a period
}

func (s *blocksSource) Next(r *rand.Rand) float64 {
	x := s.replaySource.Next(r)
	if r.Float64() < s.end {
		s.choose(r)
		s.next = r.IntN(len(s.samples))
	}
	return x
}
