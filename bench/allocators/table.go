package main

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"pinfold.dev/pinfold/core/topology"
)

// comparison is one table: all systems on one machine with one mix of pods.
type comparison struct {
	machine string
	shape   topology.Shape
	mix     mix
	nodes   int
	pods    int // counted
	seeds   int
}

// pods asks for at most half of the CPUs of a NUMA node if the mix says so.
func (c *comparison) sizes(h *host) mix {
	m := c.mix
	if m.most == halfNode {
		m.most = h.machine.NUMANodes[0].CPUs.Len() / 2
	}
	return m
}

func (c *comparison) title() string { return c.machine + ", " + c.mix.name }

// run returns the outcomes of each system, by seed.
func (c *comparison) run(ctx context.Context, h *host) ([][]outcome, error) {
	all := make([][]outcome, len(systems()))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, sys := range systems() {
		all[i] = make([]outcome, c.seeds)
		for seed := range all[i] {
			group.Go(func() (err error) {
				all[i][seed], err = simulate(ctx, h, sys, c.nodes, c.sizes(h), c.pods, uint64(seed))
				return err
			})
		}
	}
	return all, group.Wait()
}

// table runs the comparison and returns its results in Markdown.
func (c *comparison) table(ctx context.Context) (string, error) {
	h, err := newHost(c.shape)
	if err != nil {
		return "", err
	}
	all, err := c.run(ctx, h)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	sizes := c.sizes(h)
	fmt.Fprintf(&b, "**%s: %s pods, %d to %d CPUs; %d nodes, %d pods, %d seeds**\n\n", c.machine, c.mix.name, sizes.least, sizes.most, c.nodes, c.pods, c.seeds)
	b.WriteString("| system | placed | failed at the node | NUMA nodes | split cores | as well placed | CPUs in use when full |\n|---|" + strings.Repeat("--:|", 6) + "\n")
	for i, sys := range systems() {
		fmt.Fprintf(&b, "| %s |", sys.name)
		for _, column := range columns() {
			values := make([]float64, len(all[i]))
			for seed, o := range all[i] {
				values[seed] = column.of(o)
			}
			fmt.Fprintf(&b, " %s |", interval(values, column.decimals, column.unit))
		}
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	return b.String(), nil
}

type column struct {
	of       func(outcome) float64
	decimals int
	unit     string
}

func columns() []column {
	return []column{
		{func(o outcome) float64 { return o.placed }, 1, ""},
		{func(o outcome) float64 { return o.failed }, 1, ""},
		{func(o outcome) float64 { return o.numaNodes }, 3, ""},
		{func(o outcome) float64 { return o.splitCores }, 3, ""},
		{func(o outcome) float64 { return o.asWell }, 1, "%"},
		{func(o outcome) float64 { return o.full }, 1, "%"},
	}
}

// interval formats the mean of values and half the width of its 95% confidence interval.
func interval(values []float64, decimals int, unit string) string {
	mean, deviation := stat.MeanStdDev(values, nil)
	t := distuv.StudentsT{Sigma: 1, Nu: float64(len(values) - 1)}.Quantile(0.975)
	format := func(v float64) string { return strconv.FormatFloat(v, 'f', decimals, 64) }
	text := format(mean) + unit
	if half := format(t * stat.StdErr(deviation, float64(len(values)))); half != format(0) {
		text += " ± " + half
	}
	return text
}
