// Package montecarlo compares the speed of core/interference with that of the same model in numpy
// and in C, on one machine:
//
//	go test -C bench ./montecarlo -run '^$' -bench . -benchtime 4000000x
//
// # What is compared
//
// 20 equal groups with exponential demand, burst 1, at a mean of .5, .7 and .9 of the quota, under
// the strict rule. Each program computes all statistics: E[WCET], P(WCET = 1), the distribution of
// WCET, throttle ratio, backlog, burst used and demand drawn. Each except the distribution has a
// standard error from independent replicas. The programs are:
//
//   - core/interference with one worker and with two.
//   - montecarlo.py: numpy with 4,000 replicas as the vector axis, double-precision arrays and
//     in-place operations. Generator (PCG64) and exponential numbers (ziggurat) are numpy's.
//   - montecarlo.c: one group after the other, double precision, gcc -O2. The generator is
//     xoshiro256++; exponential numbers are -log.
//
// # Method
//
// Each program in turn simulates each load. bench/run repeats that in rounds; the environment
// variable BENCH_SEED is the seed of a round. A rate is groups times periods over the time of the
// simulation alone, without compiling or starting a program. The rates of numpy and C include their
// warm-up periods; that of core/interference includes only the periods that it counts, which makes
// it 1 to 3% lower. Rates over CPU time are independent of other load on the machine, except
// through caches and frequency.
//
// # Verification
//
// Every statistic of every program must agree with that of one worker within their combined
// standard error: the benchmark fails if they differ by more than 5 standard errors, or if two
// workers get any other result than one. The largest difference is reported, in standard errors.
package montecarlo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pinfold.dev/pinfold/core/interference"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
)

// loads returns the mean demands to measure.
func loads() []float64 { return []float64{.5, .7, .9} }

// shortest is the number of periods of the shortest simulation: each replica counts some.
const shortest = 64_000

// BenchmarkSimulate simulates b.N periods, or the shortest simulation, with each contender.
func BenchmarkSimulate(b *testing.B) {
	seed, err := strconv.ParseUint(os.Getenv("BENCH_SEED"), 10, 64)
	if err != nil {
		seed = 1
	}
	found, leftOut := findContenders(b.Context(), b.TempDir())
	for _, why := range leftOut {
		b.Log("left out:", why)
	}
	for _, load := range loads() {
		first := map[question]answer{} // those of the first contender
		for _, c := range found {
			b.Run(fmt.Sprintf("u=%v/by=%s", load, c.name), func(b *testing.B) {
				q := question{load, max(int64(b.N), shortest), seed}
				a := must.Get(c.ask(b.Context(), q))(b)
				b.ReportMetric(0, "ns/op") // includes the start of a program
				b.ReportMetric(groups*float64(a.Periods)/a.WallSeconds, "cgroup-periods/s")
				b.ReportMetric(groups*float64(a.Periods)/a.CPUSeconds, "cgroup-periods/cpu-s")
				if c.name == found[0].name {
					first[q] = a
				} else if reference, ok := first[q]; ok {
					off := must.Get(c.agree(a, reference))(b)
					b.ReportMetric(off, "standard-errors")
				}
			})
		}
	}
}

// tooFar is the largest accepted difference of two answers in standard errors.
const tooFar = 5

// agree compares an answer with that of the first contender. It returns their largest difference in
// standard errors.
func (c contender) agree(a, first answer) (off float64, err error) {
	if a.Periods < 1 || !(a.WallSeconds > 0) || !(a.CPUSeconds > 0) {
		return 0, fmt.Errorf("%s simulated %d periods in %v s, %v s of CPU time", c.name, a.Periods, a.WallSeconds, a.CPUSeconds)
	}
	if c.same {
		a.WallSeconds, a.CPUSeconds = first.WallSeconds, first.CPUSeconds
		if !reflect.DeepEqual(a, first) {
			return 0, fmt.Errorf("%s finds %+v and one worker %+v: they should be the same", c.name, a, first)
		}
		return 0, nil
	}
	theirs, ours := a.figures(), first.figures()
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		x, y := theirs[name], ours[name]
		z := math.Abs(x.Value-y.Value) / math.Hypot(x.StandardError, y.StandardError)
		if x.Value == y.Value {
			z = 0
		}
		if !(z <= tooFar) {
			return 0, fmt.Errorf("%s: one worker finds %v and %s %v, which differ by %.3g standard errors: one of them computes something else", name, y, c.name, x, z)
		}
		off = max(off, z)
	}
	return off, nil
}

// figures returns the statistics that must agree, by name.
func (a answer) figures() map[string]interference.Estimate {
	return map[string]interference.Estimate{"E[WCET]": a.ExpectedWCET, "P(WCET = 1)": a.ProbabilityWCET1, "throttle ratio": a.ThrottleRatio,
		"backlog": a.Backlog, "burst used": a.BurstUse, "demand": a.Demand}
}

// TestPeers runs a short simulation with each peer that this machine has, and compares the answers.
func TestPeers(t *testing.T) {
	need.This(t, "gcc, and Python with numpy")
	found, leftOut := findContenders(t.Context(), t.TempDir())
	for _, why := range leftOut {
		t.Run("left out", func(t *testing.T) { t.Skip(why) })
	}
	if len(found)+len(leftOut) != 4 {
		t.Errorf("%d contenders are there and %d left out, want 4 in all", len(found), len(leftOut))
	}
	for _, load := range loads() {
		q := question{load, shortest, 1}
		var first answer
		for i, c := range found {
			a := must.Get(c.ask(t.Context(), q))(t)
			if i == 0 {
				first = a
			}
			if _, err := c.agree(a, first); err != nil {
				t.Error(err)
			}
			sum := int64(0)
			for _, n := range a.WCET {
				sum += n
			}
			if sum < q.periods/2 || sum > a.Periods || a.WCET[0] != 0 || a.ExpectedWCET.Value < 1 {
				t.Errorf("%v, %s: %d periods in the distribution of WCET: %+v", load, c.name, sum, a)
			}
		}
	}
}

// TestLeftOut: on a machine without the peers, the others are compared, and the reasons are known.
func TestLeftOut(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := exec.LookPath("gcc"); err == nil {
		t.Fatal("an empty PATH has gcc")
	}
	found, leftOut := findContenders(t.Context(), t.TempDir(), "/no/such/python3")
	want := "numpy: no python3 with numpy: python3 -m venv bin/python"
	if len(found) != 2 || len(leftOut) != 2 || !strings.HasPrefix(leftOut[0], want) || leftOut[1] != "C: no gcc: install a C compiler" {
		t.Errorf("%d contenders, left out %q", len(found), leftOut)
	}
}

// TestDisagree: a contender with a different result ends the run with an error that names it.
func TestDisagree(t *testing.T) {
	first := must.Get(pinfold(1).ask(t.Context(), question{.5, shortest, 1}))(t)
	for name, c := range map[string]struct {
		same   bool
		change func(*answer)
		want   string
	}{
		"WCET":         {false, func(a *answer) { a.ExpectedWCET.Value += 0.05 }, "E[WCET]: "},
		"throttling":   {false, func(a *answer) { a.ThrottleRatio.Value *= 1.1 }, "throttle ratio: "},
		"not a number": {false, func(a *answer) { a.Backlog.Value = math.NaN() }, "backlog: "},
		"no time":      {false, func(a *answer) { a.CPUSeconds = 0 }, "0 s of CPU time"},
		"not the same": {true, func(a *answer) { a.Demand.Value += 1e-9 }, "they should be the same"},
	} {
		t.Run(name, func(t *testing.T) {
			a := first
			c.change(&a)
			_, err := contender{name: "other", same: c.same}.agree(a, first)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "other") {
				t.Errorf("error %v, want one with %q that names the other", err, c.want)
			}
		})
	}
	broken := program("broken", 1, "/no/such/program")
	if _, err := broken.ask(context.Background(), question{.5, shortest, 1}); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "broken") {
		t.Errorf("error %v, want one that names the program", err)
	}
}
