package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"

	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/internal/command"
)

func main() { os.Exit(command.Main("allocators", run)) }

// run executes one command line.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("allocators", flag.ContinueOnError)
	flags.SetOutput(stderr)
	seeds := flags.Int("seeds", 10, "runs per machine and mix, at least 2")
	if err := command.Parse(flags, args); err != nil {
		return err
	}
	if *seeds < 2 {
		return fmt.Errorf("%w: -seeds must be at least 2, not %d", command.ErrUsage, *seeds)
	}
	progress := command.Progress(stderr)
	for _, m := range machines() {
		h, err := newHost(m.shape)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		for _, mx := range mixes(h) {
			c := comparison{machine: m.name, host: h, mix: mx, nodes: 8, pods: 1000, seeds: *seeds, systems: systems()}
			progress(c.title())
			text, err := c.table(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", c.title(), err)
			}
			if _, err := io.WriteString(stdout, text); err != nil {
				return err
			}
		}
	}
	return nil
}

// machine is a shape with a name.
type machine struct {
	name  string
	shape topology.Shape
}

// machines returns the machines of docs/comparison.md.
func machines() []machine {
	llcs16 := topology.Shape{Packages: 2, NUMAPerPackage: 4, LLCsPerNUMA: 2, CoresPerLLC: 8, ThreadsPerCore: 2}
	return []machine{
		{"256 CPUs, 8 NUMA nodes, 16 LLCs", llcs16},
		{"256 CPUs, 8 NUMA nodes, 32 LLCs", topology.AMD256()},
		{"104 CPUs, 2 NUMA nodes, 2 LLCs", topology.Intel104()},
	}
}
