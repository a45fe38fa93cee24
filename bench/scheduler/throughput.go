package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"pinfold.dev/pinfold/local/localcluster"
)

// figures are the results of one throughput measurement.
type figures struct {
	pods      int
	perSecond float64       // pods, from the first binding to the last
	midSecond float64       // the same over the middle 80% of the bindings
	cpuPerPod time.Duration // of the scheduler, from the first binding on
	first     time.Duration // from the scheduler's readiness to the first binding
}

// newFigures evaluates the times of at least ten bindings, in ascending order.
func newFigures(ready time.Time, times []time.Time, cpu time.Duration) figures {
	n := len(times)
	rate := func(from, to int) float64 { return float64(to-from) / times[to].Sub(times[from]).Seconds() }
	return figures{
		pods:      n,
		perSecond: rate(0, n-1),
		midSecond: rate(n/10, n-n/10-1),
		cpuPerPod: cpu / time.Duration(n-1),
		first:     times[0].Sub(ready),
	}
}

// printHeader prints the header of benchstat's format.
func printHeader(w io.Writer) {
	fmt.Fprintf(w, "goos: %s\ngoarch: %s\npkg: pinfold.dev/pinfold/bench/scheduler\n", runtime.GOOS, runtime.GOARCH)
	fmt.Fprintf(w, "Unit pods/s better=higher\nUnit mid-pods/s better=higher\nUnit sched-cpu-µs/pod better=lower\nUnit first-ms better=lower\n")
}

func printFigures(w io.Writer, nodes int, v variant, f figures) {
	fmt.Fprintf(w, "BenchmarkScheduler/nodes=%d/plugin=%s\t%8d\t%8.1f pods/s\t%8.1f mid-pods/s\t%8d sched-cpu-µs/pod\t%8d first-ms\n",
		nodes, v.name, f.pods, f.perSecond, f.midSecond, f.cpuPerPod.Microseconds(), f.first.Milliseconds())
}

// measureThroughput takes all throughput measurements on one cluster.
func measureThroughput(ctx context.Context, o options, nodes int, stdout, stderr io.Writer) (err error) {
	r, err := startRig(ctx, o, nodes, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	return inTurns(o.count, func(v variant) error {
		f, err := retry(r, v, func() (figures, error) { return r.bindQueue(ctx, v) })
		if err == nil {
			printFigures(stdout, nodes, v, f)
		}
		return err
	})
}

// bindQueue has one scheduler bind pods that were created before it starts. It checks and deletes
// them afterwards.
func (r *rig) bindQueue(ctx context.Context, v variant) (f figures, err error) {
	pods := makePods(r.options.pods, v.annotated)
	if err := r.createPods(ctx, pods); err != nil {
		return f, err
	}
	f, err = r.schedule(ctx, v)
	switch {
	case errors.Is(err, errWatchEnded):
		return f, errors.Join(err, r.deletePods(ctx, pods))
	case err != nil:
		return f, errors.Join(err, r.explain(ctx))
	}
	if err := r.verify(ctx, v.annotated); err != nil {
		return f, err
	}
	return f, r.deletePods(ctx, pods)
}

// schedule runs the scheduler until all pods are bound.
func (r *rig) schedule(ctx context.Context, v variant) (f figures, err error) {
	watch, err := r.watchBindings(ctx)
	if err != nil {
		return f, err
	}
	defer watch.stop()
	defer func() { err = errors.Join(err, r.cluster.StopComponent(localcluster.Scheduler)) }()
	pid, err := r.startScheduler(ctx, v)
	if err != nil {
		return f, err
	}
	ready := time.Now()
	first, err := watch.await(ctx, 1)
	if err != nil {
		return f, err
	}
	before, err := usageOf(pid)
	if err != nil {
		return f, err
	}
	times, err := watch.await(ctx, r.options.pods-1)
	if err != nil {
		return f, err
	}
	after, err := usageOf(pid)
	return newFigures(ready, append(first, times...), after.cpu-before.cpu), err
}
