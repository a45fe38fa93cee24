package montecarlo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/demand"
	"pinfold.dev/pinfold/core/interference"
	"pinfold.dev/pinfold/internal/command"
)

// All simulations have the same groups and burst.
const (
	groups = 20
	burst  = 1
)

// question describes one simulation.
type question struct {
	load    float64 // mean demand in quotas
	periods int64   // approximate number to count
	seed    uint64
}

// warmUp returns the warm-up of a replica, computed as in core/interference.
func (q question) warmUp() int64 { return int64(max(1000, 20/(1-q.load)/(1-q.load))) }

// answer is the result of a simulation, and the time it took.
type answer struct {
	Periods          int64                 `json:"periods"` // simulated
	WallSeconds      float64               `json:"wallSeconds"`
	CPUSeconds       float64               `json:"cpuSeconds"`
	WCET             []int64               `json:"wcet"` // number of periods by WCET; the last entry includes longer ones
	ExpectedWCET     interference.Estimate `json:"expectedWCET"`
	ProbabilityWCET1 interference.Estimate `json:"probabilityWCET1"`
	ThrottleRatio    interference.Estimate `json:"throttleRatio"`
	Backlog          interference.Estimate `json:"backlog"`
	BurstUse         interference.Estimate `json:"burstUse"`
	Demand           interference.Estimate `json:"demand"`
}

// contender is a program that simulates.
type contender struct {
	name string
	same bool // its answers are bit-identical to those of one worker
	ask  func(context.Context, question) (answer, error)
}

// The replicas of the peers: a long vector, and as many as core/interference has.
const (
	numpyReplicas = 4000
	cReplicas     = interference.Replicas
)

// findContenders returns the contenders that this machine has, and why others are left out. dir
// receives a compiled program. pythons replace the places in which a Python with numpy is looked
// for.
func findContenders(ctx context.Context, dir string, pythons ...string) (found []contender, leftOut []string) {
	if pythons == nil {
		pythons = []string{"../../bin/python/bin/python3", "python3"}
	}
	found = []contender{pinfold(1), pinfold(2)}
	add := func(name string, c contender, err error) {
		if err != nil {
			leftOut = append(leftOut, fmt.Sprintf("%s: %v", name, err))
		} else {
			found = append(found, c)
		}
	}
	c, err := numpy(ctx, pythons)
	add("numpy", c, err)
	c, err = compiled(ctx, filepath.Join(dir, "montecarlo"))
	add("C", c, err)
	return found, leftOut
}

func numpy(ctx context.Context, pythons []string) (contender, error) {
	for _, p := range pythons {
		if exec.CommandContext(ctx, p, "-c", "import numpy").Run() == nil {
			return program("numpy", numpyReplicas, p, "peers/montecarlo.py"), nil
		}
	}
	return contender{}, errors.New("no python3 with numpy: python3 -m venv bin/python && bin/python/bin/pip install -r tools/python/requirements.txt")
}

func compiled(ctx context.Context, binary string) (contender, error) {
	if _, err := exec.LookPath("gcc"); err != nil {
		return contender{}, errors.New("no gcc: install a C compiler")
	}
	if out, err := exec.CommandContext(ctx, "gcc", "-O2", "-Wall", "-Wextra", "-o", binary, "peers/montecarlo.c", "-lm").CombinedOutput(); err != nil {
		return contender{}, fmt.Errorf("gcc: %w: %s", err, out)
	}
	return program("C", cReplicas, binary), nil
}

// program returns a contender that runs a command with a number of replicas.
func program(name string, replicas int64, argv ...string) contender {
	return contender{name: name, ask: func(ctx context.Context, q question) (answer, error) {
		args := append(argv[1:len(argv):len(argv)], strconv.FormatFloat(q.load, 'g', -1, 64))
		for _, n := range []int64{burst, groups, replicas, max(1, q.periods/replicas), q.warmUp(), int64(q.seed)} {
			args = append(args, strconv.FormatInt(n, 10))
		}
		var errText strings.Builder
		cmd := exec.CommandContext(ctx, argv[0], args...)
		cmd.Stderr = &errText
		out, err := cmd.Output()
		if err != nil {
			return answer{}, fmt.Errorf("run %s: %w: %s", name, err, errText.String())
		}
		var a answer
		if err := json.Unmarshal(out, &a); err != nil {
			return answer{}, fmt.Errorf("%s answered %q: %w", name, out, err)
		}
		return a, nil
	}}
}

// pinfold returns core/interference with a number of workers as a contender.
func pinfold(workers int) contender {
	name := "Pinfold-1-worker"
	if workers > 1 {
		name = fmt.Sprintf("Pinfold-%d-workers", workers)
	}
	return contender{name: name, same: true, ask: func(ctx context.Context, q question) (answer, error) {
		d, err := demand.NewExponential(q.load)
		if err != nil {
			return answer{}, err
		}
		config := interference.Config{
			Groups:  []interference.Group{{Count: groups, Quota: 1, Burst: burst, Demand: demand.Independent{Distribution: d}}},
			Periods: q.periods, Workers: workers,
			Random: func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(q.seed, n)) },
		}
		cpu, wall := command.CPUTime(unix.CLOCK_PROCESS_CPUTIME_ID), time.Now()
		r, err := interference.Simulate(ctx, config)
		if err != nil {
			return answer{}, err
		}
		cpuSeconds := (command.CPUTime(unix.CLOCK_PROCESS_CPUTIME_ID) - cpu).Seconds()
		g := r.Groups[0]
		return answer{
			Periods: r.Periods, WallSeconds: time.Since(wall).Seconds(), CPUSeconds: cpuSeconds, WCET: r.WCET,
			ExpectedWCET: r.ExpectedWCET, ProbabilityWCET1: r.ProbabilityWCET1,
			ThrottleRatio: g.ThrottleRatio, Backlog: g.Backlog, BurstUse: g.BurstUse, Demand: g.Demand,
		}, nil
	}}
}
