package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/lab/localcluster"
)

// maxArrivals bounds the pods that are created one by one to measure latencies.
const maxArrivals = 1000

// scaleFigures are the outcome of one measurement with -scale.
type scaleFigures struct {
	first      time.Duration   // from the scheduler's readiness until it has bound a pod
	latencies  []time.Duration // ascending
	perSecond  float64         // pods
	idle, peak int64           // bytes
	failover   time.Duration
}

func printScale(w io.Writer, nodes int, v variant, f scaleFigures) {
	fmt.Fprintf(w, "BenchmarkScale/nodes=%d/plugin=%s\t1\t%8.1f p50-ms\t%8.1f p99-ms\t%8.1f pods/s\t%6d idle-MiB\t%6d peak-MiB\t%8d first-ms\t%8d failover-ms\n",
		nodes, v.name, milliseconds(quantile(f.latencies, 0.50)), milliseconds(quantile(f.latencies, 0.99)),
		f.perSecond, f.idle>>20, f.peak>>20, f.first.Milliseconds(), f.failover.Milliseconds())
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// quantile returns the smallest value that at least this part of the ascending values
// does not exceed.
func quantile(ascending []time.Duration, part float64) time.Duration {
	at := int(part*float64(len(ascending))+0.999999) - 1
	return ascending[min(max(at, 0), len(ascending)-1)]
}

// scaleAll takes all measurements on one cluster.
func scaleAll(ctx context.Context, o options, nodes int, stdout, stderr io.Writer) (err error) {
	fmt.Fprintf(stderr, "nodes=%d: starting the cluster\n", nodes)
	began := time.Now()
	r, err := startRig(ctx, o, nodes, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	fmt.Fprintf(stdout, "BenchmarkStart/nodes=%d\t1\t%.1f ready-s\n", nodes, time.Since(began).Seconds())
	for i := range o.count {
		for _, v := range inTurn(i) {
			f, err := r.scale(ctx, v)
			if err != nil {
				return fmt.Errorf("plugin=%s, measurement %d: %w", v.name, i+1, err)
			}
			printScale(stdout, nodes, v, f)
		}
	}
	return nil
}

// scale lets one scheduler bind all pods, and leaves the cluster as it was.
func (r *rig) scale(ctx context.Context, v variant) (scaleFigures, error) {
	return again(r, v, func() (scaleFigures, error) {
		pods := makePods(r.options.pods, v.annotated)
		f, err := r.scaleOnce(ctx, v, pods)
		return f, errors.Join(err, r.deletePods(ctx, pods))
	})
}

func (r *rig) scaleOnce(ctx context.Context, v variant, pods []*corev1.Pod) (f scaleFigures, err error) {
	arriving := pods[:min(len(pods)/5, maxArrivals)]
	waiting := pods[len(pods)-1:] // for the successor
	others := pods[len(arriving) : len(pods)-2]
	opening := pods[len(pods)-2 : len(pods)-1] // after which the scheduler has read all topologies
	seen, err := r.watchBindings(ctx)
	if err != nil {
		return f, err
	}
	defer seen.stop()
	defer func() { err = errors.Join(err, r.cluster.StopComponent(localcluster.Scheduler)) }()
	if err := r.startScheduler(ctx, v); err != nil {
		return f, err
	}
	pid := r.cluster.PID(localcluster.Scheduler)
	if f.idle, err = memory(pid, "VmRSS"); err != nil {
		return f, err
	}
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
	if f.peak, err = memory(pid, "VmHWM"); err != nil {
		return f, err
	}
	if f.failover, err = r.failOver(ctx, seen, pid, waiting); err != nil {
		return f, err
	}
	bound, err := r.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return f, fmt.Errorf("list pods: %w", err)
	}
	return f, r.verify(bound.Items, v.annotated)
}

// arrive creates pods at a steady rate, whether or not the earlier ones are bound, and
// returns how long each took, ascending.
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

// bindAll creates pods as fast as the API server takes them and returns how many were
// bound a second.
func (r *rig) bindAll(ctx context.Context, seen *bindings, pods []*corev1.Pod) (float64, error) {
	created := make(chan error, 1)
	go func() { created <- r.createPods(ctx, pods) }()
	times, err := seen.await(ctx, len(pods))
	if err := errors.Join(<-created, err); err != nil {
		return 0, err
	}
	return float64(len(times)-1) / times[len(times)-1].Sub(times[0]).Seconds(), nil
}

// failOver kills the scheduler and returns how long a pod then waits that is created at
// once: the supervisor starts a successor, which knows nothing but what the API server
// tells.
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

// memory returns a line of /proc/PID/status that is an amount of memory, in bytes; see
// proc_pid_status(5).
func memory(pid int, name string) (int64, error) {
	path := fmt.Sprintf("/proc/%d/status", pid)
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("read the scheduler's memory: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == name+":" && fields[2] == "kB" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				return 0, fmt.Errorf("read the scheduler's memory: %s: %w", path, err)
			}
			return kib << 10, nil
		}
	}
	return 0, fmt.Errorf("read the scheduler's memory: %s has no line %s", path, name)
}
