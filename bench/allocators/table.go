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
)

// comparison is one table: systems on one machine with one mix of pods.
type comparison struct {
	machine string
	host    *host
	mix     mix
	nodes   int
	pods    int // counted
	seeds   int
	systems []system
}

func (c *comparison) title() string {
	return fmt.Sprintf("%s: %s pods, %d to %d CPUs; %d nodes, %d pods, %d seeds",
		c.machine, c.mix.name, c.mix.least, c.mix.most, c.nodes, c.pods, c.seeds)
}

// run returns the outcomes of each system, by seed.
func (c *comparison) run(ctx context.Context) ([][]outcome, error) {
	all := make([][]outcome, len(c.systems))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, sys := range c.systems {
		all[i] = make([]outcome, c.seeds)
		for seed := range all[i] {
			group.Go(func() (err error) {
				all[i][seed], err = simulate(ctx, c, sys, uint64(seed))
				return err
			})
		}
	}
	return all, group.Wait()
}

// table runs the comparison and returns its results in Markdown.
func (c *comparison) table(ctx context.Context) (string, error) {
	all, err := c.run(ctx)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "**%s**\n\n| system |", c.title())
	for _, column := range columns() {
		fmt.Fprintf(&b, " %s |", column.name)
	}
	fmt.Fprintf(&b, "\n|---|%s\n", strings.Repeat("--:|", len(columns())))
	for i, sys := range c.systems {
		fmt.Fprintf(&b, "| %s |", sys.name)
		for _, column := range columns() {
			values := make([]float64, c.seeds)
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
	name     string
	of       func(outcome) float64
	decimals int
	unit     string
}

func columns() []column {
	return []column{
		{"placed", func(o outcome) float64 { return o.placed }, 1, ""},
		{"failed at the node", func(o outcome) float64 { return o.failed }, 1, ""},
		{"NUMA nodes", func(o outcome) float64 { return o.numaNodes }, 3, ""},
		{"split cores", func(o outcome) float64 { return o.splitCores }, 3, ""},
		{"as well placed", func(o outcome) float64 { return o.asWell }, 1, "%"},
		{"CPUs in use when full", func(o outcome) float64 { return o.full }, 1, "%"},
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
