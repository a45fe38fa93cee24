package advice

import (
	"errors"
	"fmt"
	"math/rand/v2"
)

// Goal is the target that the advice must reach.
type Goal struct {
	// ThrottleRatio is the share of wall periods that may be throttled; above 0, below 1.
	ThrottleRatio float64
	// Burst is the kernel burst of LimitWithBurst and of nodes, in multiples of the quota, 0 to 1.
	Burst float64
	// ProbabilityWCET1 is how often all work that is submitted to a node in a period should finish
	// in it; above 0, below 1.
	ProbabilityWCET1 float64
}

// DefaultGoal returns the default goal: one period in a hundred throttled, a burst of 100%, and one
// deadline in a hundred missed.
func DefaultGoal() Goal { return Goal{ThrottleRatio: .01, Burst: 1, ProbabilityWCET1: .99} }

// Confidence is the confidence level of the intervals.
const Confidence = .95

// ErrGoal is wrapped by every error about a goal.
var ErrGoal = errors.New("invalid goal")

// Validate returns an error if the goal is invalid.
func (g Goal) Validate() error {
	switch {
	case !(g.ThrottleRatio > 0 && g.ThrottleRatio < 1):
		return fmt.Errorf("%w: a share of %v of the periods throttled; take a number above 0 and below 1, because no recording can guarantee 0",
			ErrGoal, g.ThrottleRatio)
	case !(g.Burst >= 0 && g.Burst <= 1):
		return fmt.Errorf("%w: a burst of %v%% of the quota; the kernel accepts 0 to 100%%", ErrGoal, 100*g.Burst)
	case !(g.ProbabilityWCET1 > 0 && g.ProbabilityWCET1 < 1):
		return fmt.Errorf("%w: deadlines met with probability %v; take a number above 0 and below 1", ErrGoal, g.ProbabilityWCET1)
	}
	return nil
}

// Options are the random numbers and the number of goroutines to use.
type Options struct {
	// Random returns the nth source of random numbers. It may be called from several goroutines.
	// The same sources give the same advice.
	Random  func(n uint64) *rand.Rand
	Workers int // 1 or more; does not change the advice
}

// check returns an error for an invalid goal or invalid options.
func check(goal Goal, options Options) error {
	if err := goal.Validate(); err != nil {
		return err
	}
	if options.Random == nil {
		return errors.New("no random numbers to draw from")
	}
	if options.Workers < 1 {
		return fmt.Errorf("%d workers; take 1 or more", options.Workers)
	}
	return nil
}
