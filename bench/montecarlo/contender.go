package main

import (
	"context"
	_ "embed" // the programs of the others
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// What all simulate, but for the load.
const (
	groups = 20
	burst  = 1
)

// A question is one simulation.
type question struct {
	load    float64 // mean demand, in quotas
	periods int64   // to count, about
	seed    uint64
}

// warmUp is as core/interference has it, for each replica.
func (q question) warmUp() int64 { return int64(max(1000, 20/(1-q.load)/(1-q.load))) }

// estimate is a mean with its standard error.
type estimate struct {
	Value         float64 `json:"value"`
	StandardError float64 `json:"standardError"`
}

// answer is what came out, and how long it took.
type answer struct {
	Periods          int64    `json:"periods"` // that were simulated
	WallSeconds      float64  `json:"wallSeconds"`
	CPUSeconds       float64  `json:"cpuSeconds"`
	WCET             []int64  `json:"wcet"` // how many periods have which; longer ones are in the last
	ExpectedWCET     estimate `json:"expectedWCET"`
	ProbabilityWCET1 estimate `json:"probabilityWCET1"`
	ThrottleRatio    estimate `json:"throttleRatio"`
	Backlog          estimate `json:"backlog"`
	BurstUse         estimate `json:"burstUse"`
	Demand           estimate `json:"demand"`
}

// contender is somebody who simulates.
type contender struct {
	name string
	same bool // its answers are those of one worker, to the last bit
	ask  func(context.Context, question) (answer, error)
}

//go:embed peers/montecarlo.py
var inNumpy string

//go:embed peers/montecarlo.c
var inC string

// Replicas of the peers: as many as a vector should have, and as we have.
const (
	numpyReplicas = 4000
	cReplicas     = 64
)

// findContenders returns us and those that this machine has, and says why others are left
// out. Programs are put into a directory.
func findContenders(ctx context.Context, python, dir string) (found []contender, leftOut []string) {
	found = []contender{pinfold(1), pinfold(2)}
	for _, peer := range []struct {
		name string
		find func() (contender, error)
	}{
		{"numpy", func() (contender, error) { return numpy(ctx, python, dir) }},
		{"C", func() (contender, error) { return compiled(ctx, dir) }},
	} {
		c, err := peer.find()
		if err != nil {
			leftOut = append(leftOut, fmt.Sprintf("%s: %v", peer.name, err))
			continue
		}
		found = append(found, c)
	}
	return found, leftOut
}

func numpy(ctx context.Context, python, dir string) (contender, error) {
	pythons := []string{python}
	if python == "" {
		pythons = []string{"bin/python/bin/python3", "../../bin/python/bin/python3", "python3"} // from the module's root, and as a test
	}
	script := filepath.Join(dir, "montecarlo.py")
	if err := os.WriteFile(script, []byte(inNumpy), 0o600); err != nil {
		return contender{}, err
	}
	for _, p := range pythons {
		if exec.CommandContext(ctx, p, "-c", "import numpy").Run() == nil {
			return program("numpy", numpyReplicas, p, script), nil
		}
	}
	return contender{}, errors.New("no python3 with numpy: python3 -m venv bin/python && bin/python/bin/pip install -r tools/python/requirements.txt")
}

func compiled(ctx context.Context, dir string) (contender, error) {
	source, binary := filepath.Join(dir, "montecarlo.c"), filepath.Join(dir, "montecarlo")
	if err := os.WriteFile(source, []byte(inC), 0o600); err != nil {
		return contender{}, err
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		return contender{}, errors.New("no gcc: install a C compiler")
	}
	if out, err := exec.CommandContext(ctx, "gcc", "-O2", "-Wall", "-Wextra", "-o", binary, source, "-lm").CombinedOutput(); err != nil {
		return contender{}, fmt.Errorf("gcc: %w: %s", err, out)
	}
	return program("C", cReplicas, binary), nil
}

// program is a contender that is a program of so many replicas.
func program(name string, replicas int64, command ...string) contender {
	return contender{name: name, ask: func(ctx context.Context, q question) (answer, error) {
		args := append(command[1:len(command):len(command)], strconv.FormatFloat(q.load, 'g', -1, 64))
		for _, n := range []int64{burst, groups, replicas, max(1, q.periods/replicas), q.warmUp(), int64(q.seed)} {
			args = append(args, strconv.FormatInt(n, 10))
		}
		var errText strings.Builder
		cmd := exec.CommandContext(ctx, command[0], args...)
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
