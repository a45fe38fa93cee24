package colocation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/lab/load"
	"pinfold.dev/pinfold/linux/cgroup"
)

// Window is what one window of a condition has measured.
type Window struct {
	Round     int    `json:"round"`
	Condition string `json:"condition"`
	// Disturbed is why the window is not used, "" if it is.
	Disturbed string `json:"disturbed,omitempty"`
	Requests  int    `json:"requests"`
	Failed    int    `json:"failed"`
	// Quantiles of latency, in microseconds.
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	// Usage, as shares of the time of all CPUs.
	Online    quantity.Share `json:"online"`
	Batch     quantity.Share `json:"batch"`
	Generator quantity.Share `json:"generator"`
	Foreign   quantity.Share `json:"foreign"`
	Stolen    quantity.Share `json:"stolen"` // by the hypervisor
	// Waited is how long threads of the service were ready to run and did not, per request, in
	// microseconds.
	Waited float64 `json:"waited"`
}

// Used returns how much of the CPUs was used.
func (w Window) Used() quantity.Share { return w.Online + w.Batch + w.Generator + w.Foreign }

// usage is CPU time since the beginning.
type usage struct {
	at                                    time.Time
	all, online, batch, generator, stolen time.Duration
	waited                                time.Duration // by threads of the service
}

// usage reads all usage.
func (r *rig) usage() (u usage, err error) {
	everything, err := r.groups.Everything()
	if err != nil {
		return u, fmt.Errorf("read the usage of the machine: %w", err)
	}
	for _, part := range []struct {
		groups []string
		sum    *time.Duration
	}{{everything, &u.all}, {[]string{r.online}, &u.online}, {[]string{r.batch}, &u.batch}} {
		for _, group := range part.groups {
			stat, err := r.groups.Stat(group)
			if err != nil {
				return u, fmt.Errorf("read the usage of %s: %w", group, err)
			}
			*part.sum += stat.Usage
		}
	}
	var self unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &self); err != nil {
		return u, fmt.Errorf("read the usage of the load generator: %w", err)
	}
	u.generator = time.Duration(self.Utime.Nano() + self.Stime.Nano())
	stat, err := procfs.FS.Stat(r.proc)
	if err != nil {
		return u, fmt.Errorf("read the time that a hypervisor took: %w", err)
	}
	u.stolen = time.Duration(stat.CPUTotal.Steal * float64(time.Second))
	if u.waited, err = r.waited(); err != nil {
		return u, err
	}
	u.at = time.Now()
	return u, nil
}

// waited returns the run-queue delay of the threads of the service since their start. Threads that have
// ended do not count; those of the service do not end.
func (r *rig) waited() (sum time.Duration, err error) {
	pids, err := r.groups.ProcessesBelow(r.online, cgroup.CPU)
	if err != nil {
		return 0, err
	}
	for _, pid := range pids {
		threads, err := r.proc.AllThreads(pid)
		if err != nil && !hasEnded(err) {
			return 0, fmt.Errorf("list the threads of the service: %w", err)
		}
		for _, thread := range threads {
			stat, err := thread.Schedstat()
			if hasEnded(err) {
				continue
			}
			if err != nil {
				return 0, fmt.Errorf("read the run-queue delay of the service: %w", err)
			}
			sum += time.Duration(stat.WaitingNanoseconds)
		}
	}
	return sum, nil
}

// hasEnded reports whether reading a thread's files failed because it has ended.
func hasEnded(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }

// window measures one window of a condition.
func (r *rig) window(ctx context.Context, c Condition, plan load.Plan) (Window, error) {
	w := Window{Condition: c.Name}
	end, err := r.begin(ctx, c)
	if err != nil {
		return w, fmt.Errorf("begin condition %q: %w", c.Name, err)
	}
	result, before, after, err := r.measure(ctx, plan)
	if err = cmp.Or(err, end()); err != nil {
		return w, fmt.Errorf("condition %q: %w", c.Name, err)
	}
	share := func(d time.Duration) quantity.Share {
		return quantity.Share(d) / quantity.Share(after.at.Sub(before.at)) / quantity.Share(r.cpus().Len())
	}
	w.Online, w.Batch = share(after.online-before.online), share(after.batch-before.batch)
	w.Generator, w.Stolen = share(after.generator-before.generator), share(after.stolen-before.stolen)
	w.Foreign = max(0, share(after.all-before.all)-w.Online-w.Batch-w.Generator)
	w.Waited = float64(after.waited-before.waited) / float64(time.Microsecond) / float64(max(1, result.Sent))
	w.Requests, w.Failed = result.Sent, result.Failed()
	for q, to := range map[float64]*float64{0.5: &w.P50, 0.9: &w.P90, 0.99: &w.P99, 0.999: &w.P999} {
		*to = float64(result.Quantile(q)) / float64(time.Microsecond)
	}
	w.Disturbed = r.config.disturbed(w)
	return w, nil
}

// measure sends the load, and reads the usage before and after.
func (r *rig) measure(ctx context.Context, plan load.Plan) (result load.Result, before, after usage, err error) {
	if before, err = r.usage(); err != nil {
		return
	}
	if result, err = load.Run(ctx, plan, r.sender.Send); err != nil {
		return
	}
	after, err = r.usage()
	return
}

// disturbed returns why a window is not used, "" if it is. Latencies do not decide.
func (c Config) disturbed(w Window) string {
	switch {
	case w.Foreign > c.Foreign:
		return fmt.Sprintf("other processes used %.1f%% of the CPUs", 100*w.Foreign)
	case w.Stolen > c.Foreign:
		return fmt.Sprintf("the hypervisor took %.1f%% of the CPUs", 100*w.Stolen)
	case w.Failed > 0:
		return fmt.Sprintf("%d requests failed", w.Failed)
	}
	return ""
}

// begin makes the settings of a condition, and then waits for them to take effect. end stops the
// budget.
func (r *rig) begin(ctx context.Context, c Condition) (end func() error, err error) {
	wanted := c.wanted(r.groups.Layout().CPU, r.cpus())
	inner, err := r.groups.Children(cgroup.CPU, r.batch)
	if err != nil {
		return nil, err
	}
	changes := map[string]cgroup.Wanted{r.batch: wanted}
	for _, group := range inner {
		changes[group] = cgroup.Wanted{CPUs: wanted.CPUs}
	}
	if err := r.groups.Apply(changes).Err(); err != nil {
		return nil, err
	}
	signal := unix.SIGSTOP
	if c.Batch {
		signal = unix.SIGCONT
	}
	if err := r.signalBatch(signal); err != nil {
		return nil, err
	}
	end = func() error { return nil }
	if c.Threshold > 0 {
		end = r.budget(ctx, c)
	}
	if !sleep.For(ctx, r.config.Settle) {
		return nil, errors.Join(context.Cause(ctx), end())
	}
	return end, nil
}

// signalBatch sends a signal to the processes of batch work.
func (r *rig) signalBatch(signal unix.Signal) error {
	pids, err := r.groups.ProcessesBelow(r.batch, cgroup.CPU)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := unix.Kill(pid, signal); err != nil {
			return os.NewSyscallError("kill", err)
		}
	}
	return nil
}
