package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strconv"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/core/interference"
)

const (
	defaultPeriods = 1_000_000
	// mostPeriods ends a simulation whose precision is not reached.
	mostPeriods = 100_000_000
)

// effort is how long a simulation goes on, what counts as a missed deadline, and where
// chance begins.
type effort struct {
	periods   periods
	precision float64
	rule      *choice
	seed      uint64
}

func effortFlags(cmd *cobra.Command) *effort {
	e := &effort{rule: oneOf(interference.Strict.String(), interference.Published.String())}
	cmd.Flags().Var(&e.periods, "periods", "simulate `N` periods, or at most so many to reach a precision (default 1000000, or 100000000)")
	cmd.Flags().Float64Var(&e.precision, "precision", 0, "simulate until the standard errors of E[WCET] and P(WCET = 1) are `P`")
	cmd.Flags().Var(e.rule, "rule", "what a missed deadline is: of all periods, or as in the published tables")
	cmd.Flags().Uint64Var(&e.seed, "seed", 1, "where random numbers begin: `S`")
	return e
}

// check refuses what cannot be.
func (e *effort) check(cmd *cobra.Command) error {
	if cmd.Flags().Changed("precision") && (!(e.precision > 0) || math.IsInf(e.precision, 1)) {
		return &wrongUsage{fmt.Sprintf("--precision %v: must be a standard error above 0, such as 0.001", e.precision)}
	}
	return nil
}

// config returns how these groups are simulated. The random numbers are the same for
// every question, so that differences between bursts are more exact than each figure.
func (e *effort) config(groups []interference.Group, capacity float64) (interference.Config, error) {
	rule, err := interference.ParseRule(e.rule.value)
	if err != nil {
		return interference.Config{}, err
	}
	n := int64(e.periods)
	switch {
	case n == 0 && e.precision > 0:
		n = mostPeriods
	case n == 0:
		n = defaultPeriods
	}
	return interference.Config{
		Groups: groups, Capacity: capacity, Rule: rule, Periods: n, Precision: e.precision,
		Random: e.random, Workers: runtime.GOMAXPROCS(0),
	}, nil
}

// random returns the nth source of random numbers.
func (e *effort) random(n uint64) *rand.Rand {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:8], e.seed)
	binary.LittleEndian.PutUint64(key[8:16], n)
	return rand.New(rand.NewChaCha8(key))
}

// periods is a flag: a whole number of at least 1, also as 1e6; 0 when it was not given.
type periods int64

func (p *periods) Type() string { return "N" }
func (p *periods) String() string {
	if *p == 0 {
		return ""
	}
	return strconv.FormatInt(int64(*p), 10)
}

func (p *periods) Set(text string) error {
	n, err := strconv.ParseInt(text, 10, 64)
	if x, wrong := strconv.ParseFloat(text, 64); err != nil && wrong == nil && x == math.Trunc(x) && math.Abs(x) < 1<<53 {
		n, err = int64(x), nil
	}
	if err != nil || n < 1 {
		return errors.New("must be a whole number, 1 or more, such as 1000000 or 1e6")
	}
	*p = periods(n)
	return nil
}
