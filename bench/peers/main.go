package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/internal/command"
)

func main() { os.Exit(command.Main("peers", run)) }

// run executes one command line.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.SetOutput(stderr)
	sets := flags.Int("sets", 1000, "free sets per case, at least 1")
	if err := command.Parse(flags, args); err != nil {
		return err
	}
	if *sets < 1 {
		return fmt.Errorf("%w: -sets must be at least 1, not %d", command.ErrUsage, *sets)
	}
	progress := command.Progress(stderr)
	var rows []row
	for _, mc := range machines() {
		more, err := compare(ctx, mc, *sets, progress)
		if err != nil {
			return err
		}
		rows = append(rows, more...)
	}
	_, err := io.WriteString(stdout, tables(rows))
	return err
}

// machine is one machine of the comparison.
type machine struct {
	name  string
	shape topology.Shape
	cpus  []int // numbers of CPUs wanted
}

// machines returns the machines of the benchmark of package placement, and the one with the largest
// NUMA nodes, of which 60% are 62 CPUs.
func machines() []machine {
	llcs16 := topology.Shape{Packages: 2, NUMAPerPackage: 4, LLCsPerNUMA: 2, CoresPerLLC: 8, ThreadsPerCore: 2}
	return []machine{
		{"256 CPUs, 8 NUMA nodes, 16 LLCs", llcs16, []int{4, 16, 64}},
		{"256 CPUs, 8 NUMA nodes, 32 LLCs", topology.AMD256(), []int{4, 16, 64}},
		{"104 CPUs, 2 NUMA nodes, 2 LLCs", topology.Intel104(), []int{4, 16, 32}},
	}
}

// scatter is how the free CPUs of a machine were chosen.
type scatter string

const (
	byThread scatter = "by thread"
	byCore   scatter = "by core"
)

func scatters() []scatter { return []scatter{byThread, byCore} }

// seed makes the first n free sets of a machine the same in every run, and the same as in the
// benchmark of package placement.
const seed = 20261120

// freeSets returns n random sets of 60% of a machine's CPUs, by single thread or by whole core.
func freeSets(m *topology.Machine, how scatter, n int) []cpuset.Set {
	rng := rand.New(rand.NewPCG(seed, 0))
	var units []cpuset.Set
	if how == byThread {
		for _, c := range m.CPUs {
			units = append(units, cpuset.Of(c.ID))
		}
	} else {
		for _, core := range m.Cores() {
			units = append(units, core.CPUs)
		}
	}
	sets := make([]cpuset.Set, n)
	for i := range sets {
		rng.Shuffle(len(units), func(a, b int) { units[a], units[b] = units[b], units[a] })
		for _, unit := range units[:len(units)*6/10] {
			sets[i] = sets[i].Union(unit)
		}
	}
	return sets
}
