package main

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"

	"pinfold.dev/pinfold/bench/internal/command"
	"pinfold.dev/pinfold/core/interference"
	"pinfold.dev/pinfold/test/golden"
)

// TestPeers runs a short simulation with each peer that this machine has, and compares the answers.
func TestPeers(t *testing.T) {
	found, leftOut := findContenders(t.Context(), "", t.TempDir())
	byName := map[string]contender{}
	for _, c := range found {
		byName[c.name] = c
	}
	o := options{rounds: 1, periods: 64_000}
	for _, name := range []string{"Pinfold, 2 workers", "numpy", "C"} {
		t.Run(name, func(t *testing.T) {
			c, ok := byName[name]
			if !ok {
				for _, why := range leftOut {
					if strings.HasPrefix(why, name+":") {
						t.Skip(why)
					}
				}
				t.Fatal("it is neither there nor left out")
			}
			all, err := measure(t.Context(), []contender{pinfold(1), c}, o, func(what string) { t.Log(what) })
			if err != nil {
				t.Fatal(err)
			}
			for _, out := range all {
				a, sum := out.answers[0], int64(0)
				for _, n := range a.WCET {
					sum += n
				}
				if sum < o.periods/2 || sum > a.Periods || a.WCET[0] != 0 || a.ExpectedWCET.Value < 1 {
					t.Errorf("%v, %s: %d periods in the distribution of WCET: %+v", out.load, out.name, sum, a)
				}
			}
		})
	}
}

// TestLeftOut: on a machine without the peers, the others are compared, and the output says why.
func TestLeftOut(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := exec.LookPath("gcc"); err == nil {
		t.Fatal("an empty PATH has gcc")
	}
	var stdout, stderr strings.Builder
	args := []string{"-rounds=1", "-periods=64000", "-python=/no/such/python3"}
	if err := run(t.Context(), args, &stdout, &stderr); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"left out: numpy: no python3 with numpy: python3 -m venv bin/python", "left out: C: no gcc: install a C compiler"} {
		if !strings.Contains(stderr.String(), want) || !strings.Contains(stdout.String(), want) {
			t.Errorf("neither table nor messages may be without %q:\n%s\n%s", want, &stdout, &stderr)
		}
	}
	if n := strings.Count(stdout.String(), "Pinfold, 1 worker"); n != len(loads()) {
		t.Errorf("%d rows for %d loads:\n%s", n, len(loads()), &stdout)
	}
}

// TestDisagree: a contender with a different result ends the run with an error that names it.
func TestDisagree(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		same   bool
		change func(*answer) error
		want   string
	}{
		"WCET":         {false, func(a *answer) error { a.ExpectedWCET.Value += 0.05; return nil }, "E[WCET]: "},
		"throttling":   {false, func(a *answer) error { a.ThrottleRatio.Value *= 1.1; return nil }, "throttle ratio: "},
		"not a number": {false, func(a *answer) error { a.Backlog.Value = math.NaN(); return nil }, "backlog: "},
		"no time":      {false, func(a *answer) error { a.CPUSeconds = 0; return nil }, "0 s of CPU time"},
		"not the same": {true, func(a *answer) error { a.Demand.Value += 1e-9; return nil }, "they should be the same"},
		"broken":       {false, func(*answer) error { return broken }, "broken"},
	} {
		t.Run(name, func(t *testing.T) {
			other := contender{name: "other", same: c.same, ask: func(ctx context.Context, q question) (answer, error) {
				a, err := pinfold(1).ask(ctx, q)
				return a, errors.Join(err, c.change(&a))
			}}
			_, err := measure(t.Context(), []contender{pinfold(1), other}, options{rounds: 1, periods: 64_000}, func(string) {})
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "other") {
				t.Errorf("error %v, want one with %q that names the other", err, c.want)
			}
		})
	}
}

// TestOutput prints the results of a machine of constant speed.
func TestOutput(t *testing.T) {
	var all []outcome
	for _, load := range []float64{.5, .9} {
		for i, name := range []string{"Pinfold, 1 worker", "Pinfold, 2 workers", "numpy"} {
			o := outcome{load: load, name: name, same: i < 2, off: load}
			for round := range 3 {
				seconds := []float64{2, 1, 5}[i] * (1 + load*float64(round)/100)
				o.answers = append(o.answers, answer{Periods: 1e7, WallSeconds: seconds, CPUSeconds: []float64{2, 2.05, 5}[i],
					ExpectedWCET: estimate(1+load/100, .0001), ProbabilityWCET1: estimate(1-load/100, .0002), ThrottleRatio: estimate(load/2, .00003)})
			}
			all = append(all, o)
		}
	}
	leftOut := []string{"C: no gcc: install a C compiler"}
	for output, print := range map[string]func(io.Writer) error{
		"text":      func(w io.Writer) error { return printTables(w, "text", 2, all, leftOut) },
		"markdown":  func(w io.Writer) error { return printTables(w, "markdown", 2, all, leftOut) },
		"benchstat": func(w io.Writer) error { return printBenchstat(w, all) },
	} {
		var b strings.Builder
		if err := print(&b); err != nil {
			t.Fatal(err)
		}
		golden.Compare(t, "testdata/output."+output, b.String())
	}
}

func estimate(value, standardError float64) interference.Estimate {
	return interference.Estimate{Value: value, StandardError: standardError}
}

func TestWrongUsage(t *testing.T) {
	for _, args := range [][]string{{"-rounds=0"}, {"-periods=1"}, {"-o=json"}, {"more"}, {"-frob"}} {
		if err := run(t.Context(), args, os.Stdout, io.Discard); !errors.Is(err, command.ErrUsage) {
			t.Errorf("%q: %v, want %v", args, err, command.ErrUsage)
		}
	}
}
