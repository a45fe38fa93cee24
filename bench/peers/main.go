package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"

	"pinfold.dev/pinfold/bench/internal/command"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

func main() { os.Exit(command.Main("peers", run)) }

// options are the command line.
type options struct {
	sets   int
	times  bool
	output string
}

func parseOptions(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.sets, "sets", 1000, "free sets per case, at least 1")
	flags.BoolVar(&o.times, "times", true, "print times; the rest of the output is the same in every run")
	flags.StringVar(&o.output, "o", "text", "output: text, markdown or json")
	if err := command.Parse(flags, args); err != nil {
		return o, err
	}
	switch {
	case o.sets < 1:
		return o, fmt.Errorf("%w: -sets must be at least 1, not %d", command.ErrUsage, o.sets)
	case o.output != "text" && o.output != "markdown" && o.output != "json":
		return o, fmt.Errorf("%w: -o must be text, markdown or json, not %q", command.ErrUsage, o.output)
	}
	return o, nil
}

// run executes one command line.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parseOptions(args, stderr)
	if err != nil {
		return err
	}
	progress := command.Progress(stderr)
	var rows []Row
	for _, mc := range machines() {
		more, err := compare(ctx, mc, o.sets, progress)
		if err != nil {
			return err
		}
		rows = append(rows, more...)
	}
	return printRows(stdout, o, rows)
}

// printRows prints the result as the options say.
func printRows(w io.Writer, o options, rows []Row) error {
	if !o.times {
		for i := range rows {
			rows[i].Median = 0
		}
	}
	switch o.output {
	case "json":
		return printJSON(w, rows)
	case "markdown":
		command.Markdown(w, tables(rows)...)
	default:
		command.Text(w, tables(rows)...)
	}
	return nil
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
