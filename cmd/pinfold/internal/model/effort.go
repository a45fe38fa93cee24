package model

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"strconv"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/core/interference"
	"pinfold.dev/pinfold/report/simulation"
)

const (
	defaultPeriods = 1_000_000
	maxPeriods     = 100_000_000 // with --precision, if it is not reached
)

// effortOptions determines how long a simulation runs, its rule for missed deadlines, and its seed.
type effortOptions struct {
	periods   int64 // 0: not given
	precision float64
	rule      interference.Rule
	seed      uint64
}

func newEffortOptions(cmd *cobra.Command) *effortOptions {
	e := &effortOptions{rule: interference.Strict}
	frame.Var(cmd.Flags(), &e.periods, "periods", "N", "simulate `N` periods; with --precision, at most (default 1000000, or 100000000)", parsePeriods)
	frame.ShareVar(cmd.Flags(), &e.precision, 1, "precision", "simulate until the standard errors of E[WCET] and P(WCET = 1) are this SHARE, such as 0.1%")
	frame.Var(cmd.Flags(), &e.rule, "rule", "strict|published|apart", "which periods miss their deadline: all that are late, as in the published tables, or with periods that begin apart as in the kernel", interference.ParseRule)
	cmd.Flags().Uint64Var(&e.seed, "seed", 1, "the random numbers have the seed `S`")
	return e
}

// parsePeriods parses a whole number of at least 1, also as 1e6.
func parsePeriods(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if x, wrong := strconv.ParseFloat(text, 64); err != nil && wrong == nil && x == math.Trunc(x) && math.Abs(x) < 1<<53 {
		n, err = int64(x), nil
	}
	if err != nil || n < 1 {
		return 0, errors.New("must be a whole number, 1 or more, such as 1000000 or 1e6")
	}
	return n, nil
}

func (e *effortOptions) check(cmd *cobra.Command) error {
	if cmd.Flags().Changed("precision") && e.precision == 0 {
		return frame.Usagef("--precision 0: must be a standard error above 0, such as 0.001")
	}
	return nil
}

// config returns the simulator's input. All combinations use the same random numbers, so that
// differences between them are more exact than each figure.
func (e *effortOptions) config(c *simulation.Combination) interference.Config {
	n := e.periods
	switch {
	case n == 0 && e.precision > 0:
		n = maxPeriods
	case n == 0:
		n = defaultPeriods
	}
	return interference.Config{
		Groups: c.Kinds, Capacity: c.Capacity, Rule: e.rule, Periods: n, Precision: e.precision,
		Random: randomSources(e.seed), Workers: runtime.GOMAXPROCS(0),
	}
}

// randomSources returns independent sources of random numbers, by their index.
func randomSources(seed uint64) func(n uint64) *rand.Rand {
	return func(n uint64) *rand.Rand {
		var key [32]byte
		binary.LittleEndian.PutUint64(key[:8], seed)
		binary.LittleEndian.PutUint64(key[8:16], n)
		return rand.New(rand.NewChaCha8(key))
	}
}

// checkAll rejects combinations that cannot be simulated, before the first simulation starts.
func (e *effortOptions) checkAll(all []simulation.Combination) error {
	for i := range all {
		config := e.config(&all[i])
		if err := config.Check(); err != nil {
			return fmt.Errorf("%s: %w", &all[i], err)
		}
	}
	return nil
}

// simulateAll simulates combinations one after the other, each on all cores. When it is
// interrupted, it returns the finished ones with the error.
func (e *effortOptions) simulateAll(ctx context.Context, stderr io.Writer, all []simulation.Combination) ([]simulation.Outcome, error) {
	ctx, stop := frame.Interruptible(ctx)
	defer stop()
	progress := frame.NewProgress(stderr)
	defer progress.End()
	var done []simulation.Outcome
	for i := range all {
		c := &all[i]
		config := e.config(c)
		config.Progress = func(periods, of int64) {
			progress.Draw(func() string {
				share := (float64(i) + float64(periods)/float64(of)) / float64(len(all))
				return fmt.Sprintf("%s  %v  %d of %d: %s  (ctrl-C ends)", frame.Bar(share), progress.Elapsed(), i+1, len(all), c)
			})
		}
		result, err := interference.Simulate(ctx, config)
		switch {
		case err != nil && ctx.Err() != nil:
			return done, fmt.Errorf("interrupted: %d of %d combinations are done%s", i, len(all), andPrinted(i))
		case errors.Is(err, interference.ErrUnstable):
			return done, fmt.Errorf("%s: %w: the load is too near to 1 to be simulated; ask about less", c, err)
		case err != nil:
			return done, fmt.Errorf("%s: %w", c, err)
		}
		done = append(done, simulation.Outcome{Combination: *c, Result: result})
	}
	return done, nil
}

func andPrinted(done int) string {
	if done == 0 {
		return ", and nothing is printed"
	}
	return " and printed"
}
