package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/local/localcluster"
)

// maxArrivals bounds the number of pods that are created one by one to measure latencies.
const maxArrivals = 1000

// scaleFigures are the results of one measurement with -scale.
type scaleFigures struct {
	first      time.Duration   // from the scheduler's readiness to the first binding
	latencies  []time.Duration // ascending
	perSecond  float64         // pods
	idle, peak uint64          // bytes
	failover   time.Duration
}

func printScale(w io.Writer, nodes int, v variant, f scaleFigures) {
	fmt.Fprintf(w, "BenchmarkScale/nodes=%d/plugin=%s\t1\t%8.1f p50-ms\t%8.1f p99-ms\t%8.1f pods/s\t%6d idle-MiB\t%6d peak-MiB\t%8d first-ms\t%8d failover-ms\n",
		nodes, v.name, milliseconds(quantile(f.latencies, 0.50)), milliseconds(quantile(f.latencies, 0.99)),
		f.perSecond, f.idle>>20, f.peak>>20, f.first.Milliseconds(), f.failover.Milliseconds())
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// quantile returns the smallest of the ascending values such that at least this part of the values
// does not exceed it.
func quantile(ascending []time.Duration, part float64) time.Duration {
	at := int(math.Ceil(part*float64(len(ascending))-1e-6)) - 1
	return ascending[min(max(at, 0), len(ascending)-1)]
}

// measureScale takes all measurements of -scale on one cluster.
func measureScale(ctx context.Context, o options, nodes int, stdout, stderr io.Writer) (err error) {
	began := time.Now()
	r, err := startRig(ctx, o, nodes, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	fmt.Fprintf(stdout, "BenchmarkStart/nodes=%d\t1\t%.1f ready-s\n", nodes, time.Since(began).Seconds())
	return inTurns(o.count, func(v variant) error {
		f, err := retry(r, v, func() (scaleFigures, error) {
			pods := makePods(o.pods, v.annotated)
			f, err := r.bindInPhases(ctx, v, pods)
			return f, errors.Join(err, r.deletePods(ctx, pods))
		})
		if err == nil {
			printScale(stdout, nodes, v, f)
		}
		return err
	})
}

// bindInPhases has one scheduler bind the pods in the phases of -scale, and checks them.
func (r *rig) bindInPhases(ctx context.Context, v variant, pods []*corev1.Pod) (f scaleFigures, err error) {
	arriving := pods[:min(len(pods)/5, maxArrivals)]
	waiting := pods[len(pods)-1:] // for the successor
	others := pods[len(arriving) : len(pods)-2]
	opening := pods[len(pods)-2 : len(pods)-1] // has the scheduler read all topologies
	seen, err := r.watchBindings(ctx)
	if err != nil {
		return f, err
	}
	defer seen.stop()
	defer func() { err = errors.Join(err, r.cluster.StopComponent(localcluster.Scheduler)) }()
	pid, err := r.startScheduler(ctx, v)
	if err != nil {
		return f, err
	}
	used, err := usageOf(pid)
	if err != nil {
		return f, err
	}
	f.idle = used.now
	ready := time.Now()
	if err := r.createPods(ctx, opening); err != nil {
		return f, err
	}
	opened, err := seen.await(ctx, len(opening))
	if err != nil {
		return f, err
	}
	f.first = opened[0].Sub(ready)
	if f.latencies, err = r.arrive(ctx, seen, arriving); err != nil {
		return f, err
	}
	if f.perSecond, err = r.bindAll(ctx, seen, others); err != nil {
		return f, err
	}
	if used, err = usageOf(pid); err != nil {
		return f, err
	}
	f.peak = used.peak
	if f.failover, err = r.failOver(ctx, seen, pid, waiting); err != nil {
		return f, err
	}
	return f, r.verify(ctx, v.annotated)
}

// arrive creates pods at a steady rate, whether or not the earlier ones are bound. It returns the
// time from the creation of each until it was bound, in ascending order.
func (r *rig) arrive(ctx context.Context, seen *bindings, pods []*corev1.Pod) ([]time.Duration, error) {
	var mu sync.Mutex
	sent := make(map[string]time.Time, len(pods))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		tick := time.NewTicker(time.Second / time.Duration(r.options.rate))
		defer tick.Stop()
		for _, pod := range pods {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			mu.Lock()
			sent[pod.Name] = time.Now()
			mu.Unlock()
			go func() {
				if err := r.createPods(ctx, []*corev1.Pod{pod}); err != nil {
					cancel(err)
				}
			}()
		}
	}()
	latencies := make([]time.Duration, 0, len(pods))
	err := seen.each(ctx, len(pods), func(pod string, at time.Time) {
		mu.Lock()
		defer mu.Unlock()
		latencies = append(latencies, at.Sub(sent[pod]))
	})
	slices.Sort(latencies)
	return latencies, err
}

// bindAll creates pods as fast as the API server accepts them. It returns how many were bound per
// second.
func (r *rig) bindAll(ctx context.Context, seen *bindings, pods []*corev1.Pod) (float64, error) {
	created := make(chan error, 1)
	go func() { created <- r.createPods(ctx, pods) }()
	times, err := seen.await(ctx, len(pods))
	if err := errors.Join(<-created, err); err != nil {
		return 0, err
	}
	return float64(len(times)-1) / times[len(times)-1].Sub(times[0]).Seconds(), nil
}

// failOver kills the scheduler and creates a pod. It returns the time until the pod is bound by the
// successor, which the supervisor starts.
func (r *rig) failOver(ctx context.Context, seen *bindings, pid int, waiting []*corev1.Pod) (time.Duration, error) {
	killed := time.Now()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return 0, fmt.Errorf("kill the scheduler: %w", err)
	}
	if err := r.createPods(ctx, waiting); err != nil {
		return 0, err
	}
	times, err := seen.await(ctx, len(waiting))
	if err != nil {
		return 0, err
	}
	return times[0].Sub(killed), nil
}
