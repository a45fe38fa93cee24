package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"pinfold.dev/pinfold/core/interference"
)

// combination is one question to the simulator.
type combination struct {
	name     string  // of the distribution
	mean     float64 // demand, in multiples of the quotas
	cgroups  int
	burst    burst
	quota    float64 // of a group
	capacity float64 // in the unit of the quotas
	groups   []interference.Group
}

// simulated is a combination with what came out.
type simulated struct {
	combination
	*interference.Result
}

// checkAll refuses combinations that have no answer, before the first is simulated.
func (e *effort) checkAll(all []combination) error {
	for _, c := range all {
		config, err := e.config(c.groups, c.capacity)
		if err == nil {
			err = config.Check()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", c.what(), err)
		}
	}
	return nil
}

// simulateAll answers combinations in their order; each uses all cores. When it is
// interrupted, what is done so far is returned with the error.
func (e *effort) simulateAll(ctx context.Context, stderr io.Writer, all []combination) ([]simulated, error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	line, begin := newProgressLine(stderr), time.Now()
	defer line.end()
	var done []simulated
	for i, c := range all {
		config, err := e.config(c.groups, c.capacity)
		if err != nil {
			return done, err
		}
		config.Progress = func(periods, of int64) {
			at := time.Since(begin)
			line.draw(at, func() string { return simulationLine(i, len(all), c, float64(periods)/float64(of), at) })
		}
		result, err := interference.Simulate(ctx, config)
		switch {
		case err != nil && ctx.Err() != nil:
			return done, fmt.Errorf("interrupted: %d of %d combinations are done%s", i, len(all), andPrinted(i))
		case err != nil:
			return done, fmt.Errorf("%s: %w", c.what(), adviseSimulation(err))
		}
		done = append(done, simulated{c, result})
	}
	return done, nil
}

func andPrinted(done int) string {
	if done == 0 {
		return ", and nothing is printed"
	}
	return " and printed"
}

// simulationLine is what a terminal shows: how far all combinations are, and which one it is.
func simulationLine(i, n int, c combination, done float64, at time.Duration) string {
	return fmt.Sprintf("%s  %v  %d of %d: %s  (ctrl-C ends)",
		bar((float64(i)+done)/float64(n)), at.Round(100*time.Millisecond), i+1, n, c.what())
}

// adviseSimulation adds what to do about a failure.
func adviseSimulation(err error) error {
	if errors.Is(err, interference.ErrUnstable) {
		return fmt.Errorf("%w: the load is too near to 1 to be simulated; ask about less", err)
	}
	return err
}
