package demand

import (
	"math/rand/v2"
	"slices"
)

// Replay repeats a recording in the order of time, over and over.
type Replay struct {
	samples []float64
	mean    float64
}

// NewReplay returns a process of samples, one a period. They are copied.
func NewReplay(samples []float64) (*Replay, error) {
	if err := checkAmounts(samples); err != nil {
		return nil, err
	}
	return &Replay{samples: slices.Clone(samples), mean: average(samples)}, nil
}

// WithMean returns the replay stretched to another mean.
func (p *Replay) WithMean(mean float64) (*Replay, error) {
	scaled, err := scaledTo(p.samples, p.mean, mean)
	if err != nil {
		return nil, err
	}
	return &Replay{samples: scaled, mean: mean}, nil
}

// Mean of the samples.
func (p *Replay) Mean() float64 { return p.mean }

// Start begins somewhere in the recording.
func (p *Replay) Start(r *rand.Rand) Source { return p.From(r.IntN(len(p.samples))) }

// From begins at a sample: 0 is the first.
func (p *Replay) From(i int) Source { return &replaying{p.samples, i % len(p.samples)} }

type replaying struct {
	samples []float64
	next    int
}

func (s *replaying) Next(*rand.Rand) float64 {
	x := s.samples[s.next]
	if s.next++; s.next == len(s.samples) {
		s.next = 0
	}
	return x
}

// Blocks strings together pieces of a recording.
type Blocks struct {
	replay Replay
	length float64
}

// NewBlocks returns the stationary bootstrap of samples, one a period. Pieces have
// geometrically distributed lengths with a mean of length >= 1 periods; take several
// times as long as the demand remembers. Length 1 draws each sample by itself. A piece
// that reaches the recording's end goes on at its beginning, so that every sample is as
// likely as any other.
func NewBlocks(samples []float64, length float64) (*Blocks, error) {
	replay, err := NewReplay(samples)
	if err != nil {
		return nil, err
	}
	if err := checkPositive("the length of blocks", length); err != nil {
		return nil, err
	}
	if length < 1 || length > float64(len(samples)) {
		return nil, invalid("blocks of %v periods; take 1 to the %d of the recording", length, len(samples))
	}
	return &Blocks{*replay, length}, nil
}

// WithMean returns the same pieces stretched to another mean.
func (b *Blocks) WithMean(mean float64) (*Blocks, error) {
	replay, err := b.replay.WithMean(mean)
	if err != nil {
		return nil, err
	}
	return &Blocks{*replay, b.length}, nil
}

// Mean of the samples.
func (b *Blocks) Mean() float64 { return b.replay.mean }

// Start begins with a piece.
func (b *Blocks) Start(r *rand.Rand) Source {
	return &stringing{replaying{b.replay.samples, r.IntN(len(b.replay.samples))}, 1 / b.length}
}

type stringing struct {
	replaying
	end float64 // probability that a piece ends after a period
}

func (s *stringing) Next(r *rand.Rand) float64 {
	x := s.replaying.Next(r)
	if r.Float64() < s.end {
		s.next = r.IntN(len(s.samples))
	}
	return x
}
