package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/internal/logdedup"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
	"pinfold.dev/pinfold/linux/runqueue"
	"pinfold.dev/pinfold/linux/schedtrace"
)

// contention is for how long containers were ready to run and did not run, and behind whom.
type contention struct {
	groups *cgroup.FS
	log    *slog.Logger

	mu         sync.Mutex             // protects the following fields
	containers map[string]*waiting    // by path
	paths      map[blame.Group]string // of all groups
	before     map[blame.Group]string // and of those that existed when they were last listed
	missing    map[blame.Group]bool   // that waited, and were not found then: they have ended, or may not be listed
	ended      map[string]*waiting    // containers that existed before the last change
	pairs      map[pair]*pairWaited
	total      time.Duration // behind others
	cost       runqueue.Cost
	passed     runqueue.Cost // of earlier runs
	running    bool
}

// waiting is for how long a container has waited.
type waiting struct {
	labels      [3]string
	workload    workload
	others, own time.Duration
}

// workload is what pairs are counted for: that of a pod, or a group or thread outside of pods.
type workload struct{ namespace, name string }

// pair is who waits, and behind whom.
type pair struct{ victim, behind workload }

// pairWaited is for how long a pair has waited. It is shown for a while after an interval in which it was
// one of the heaviest.
type pairWaited struct {
	total, before time.Duration // before is that at the end of the last interval
	// live is set if the total is shown, and not sent, which is what was shown before. A counter begins with 0, so
	// that whoever reads it now and then sees all of it as an increase.
	live  bool
	sent  time.Duration
	shown int // intervals for which it is still shown
}

const (
	// contentionEvery is how often the samples are read, and pairsEvery the interval whose heaviest pairs
	// begin to be shown, in numbers of readings.
	contentionEvery = 10 * time.Second
	pairsEvery      = 6
	// heaviestPairs is how many pairs begin to be shown, and showPairs for how many intervals.
	heaviestPairs = 10
	showPairs     = 60
	// mostPairs bounds the pairs. The rest counts for containers and the node only.
	mostPairs = 10_000
)

// waited is what is shown.
func (w *pairWaited) waited() time.Duration {
	if w.live {
		return w.total
	}
	return w.sent
}

func newContention(groups *cgroup.FS, log *slog.Logger) *contention {
	return &contention{groups: groups, log: log, containers: map[string]*waiting{}, pairs: map[pair]*pairWaited{}}
}

// set sets the containers that exist.
func (c *contention) set(containers []control.Limited) {
	c.mu.Lock()
	defer c.mu.Unlock()
	byLabels := map[[3]string]*waiting{}
	for _, one := range c.containers {
		byLabels[one.labels] = one
	}
	now := make(map[string]*waiting, len(containers))
	for i := range containers {
		l := &containers[i]
		labels := [3]string(labelValues(l))
		one := cmp.Or(c.containers[l.Path], byLabels[labels]) // else it has been restarted
		if one == nil {
			one = &waiting{labels: labels, workload: workload{l.Namespace, l.Workload}}
		}
		now[l.Path] = one
	}
	if !maps.Equal(c.containers, now) {
		c.ended = c.containers
	}
	c.containers = now
}

// run samples until the context ends.
func (c *contention) run(ctx context.Context, dedup *logdedup.Log) {
	for ctx.Err() == nil {
		dedup.Clear("contention")
		err := c.sample(ctx)
		if ctx.Err() != nil {
			return
		}
		dedup.WarnOrClear("contention", fmt.Sprintf("it is not sampled for %v which containers wait for CPUs", traceAgainAfter), err)
		sleep.For(ctx, traceAgainAfter)
	}
}

func (c *contention) sample(ctx context.Context) error {
	s, err := runqueue.Open()
	if errors.Is(err, errors.ErrUnsupported) { // it is on by default, so this is no warning
		c.log.Info("it is not sampled which containers wait for CPUs", "error", err)
		<-ctx.Done()
		return nil
	}
	if err != nil {
		return err
	}
	defer s.Close()
	defer c.end()
	for n := 1; ; n++ {
		sleep.For(ctx, contentionEvery)
		if ctx.Err() != nil {
			return nil
		}
		waits, err := s.Read()
		if err != nil {
			return err
		}
		cost, err := s.Cost()
		if err != nil {
			return err
		}
		if c.unknown(waits) {
			ids, err := schedtrace.Groups(c.groups, "/")
			c.learn(ids)
			if err == nil {
				c.miss(waits)
			}
		}
		c.add(waits)
		if n%pairsEvery == 0 {
			c.next()
		}
		c.spent(cost)
	}
}

func (c *contention) spent(cost runqueue.Cost) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cost, c.running = cost, true
}

func (c *contention) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.passed, c.cost, c.running = c.passed.Plus(c.cost), runqueue.Cost{}, false
}

// unknown reports whether a group is not known that waited, or that others waited behind. Group 0 is
// that of a session (CONFIG_SCHED_AUTOGROUP), which has no path.
func (c *contention) unknown(waits []runqueue.Wait) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(waits, func(w runqueue.Wait) bool {
		return slices.ContainsFunc(c.unnamed(w), func(g blame.Group) bool { return !c.missing[g] })
	})
}

// unnamed returns the groups whose paths are not known. mu must be locked.
func (c *contention) unnamed(w runqueue.Wait) (groups []blame.Group) {
	if w.Group != 0 && c.pathOf(w.Group) == "" {
		groups = append(groups, w.Group)
	}
	if w.Behind == runqueue.Group && c.pathOf(w.Other) == "" {
		groups = append(groups, w.Other)
	}
	return groups
}

// learn learns the paths of all groups. Those that have ended meanwhile stay unknown.
func (c *contention) learn(ids map[string]blame.Group) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before, c.paths = c.paths, make(map[blame.Group]string, len(ids))
	for name, id := range ids {
		c.paths[id] = name
	}
}

// miss notes which groups are not known although all were listed, so that they are not looked for again.
func (c *contention) miss(waits []runqueue.Wait) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.missing = map[blame.Group]bool{}
	for _, w := range waits {
		for _, group := range c.unnamed(w) {
			c.missing[group] = true
		}
	}
}

// pathOf returns the path of a group, also of one that has ended since the last reading; "" if it is not
// known. mu must be locked.
func (c *contention) pathOf(group blame.Group) string { return cmp.Or(c.paths[group], c.before[group]) }

// containerOf returns the container of a group, nil if it is in none. mu must be locked.
func (c *contention) containerOf(group blame.Group) *waiting {
	for name := c.pathOf(group); len(name) > 1; name = path.Dir(name) {
		if one := cmp.Or(c.containers[name], c.ended[name]); one != nil {
			return one
		}
	}
	return nil
}

// add adds what samples have shown.
func (c *contention) add(waits []runqueue.Wait) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range waits {
		w := &waits[i]
		victim := c.containerOf(w.Group)
		if victim == nil {
			continue
		}
		other := workload{name: "a group that has ended"}
		switch w.Behind {
		case runqueue.Group:
			if by := c.containerOf(w.Other); by == victim {
				victim.own += w.Time
				continue
			} else if by != nil {
				other = by.workload
			} else if name := c.pathOf(w.Other); name != "" {
				other.name = name
			}
		case runqueue.Root:
			name, _, _ := strings.Cut(w.Name, "/") // "kworker/1:1H" is one of many
			other.name = "thread " + strings.ToValidUTF8(name, "?")
		case runqueue.Nothing: // it has just been woken, or core scheduling keeps the CPU idle
			continue
		case runqueue.Machine:
			other.name = "interrupts or the hypervisor"
		}
		victim.others += w.Time
		c.total += w.Time
		p := pair{victim.workload, other}
		one := c.pairs[p]
		if one == nil {
			if len(c.pairs) >= mostPairs {
				continue
			}
			one = &pairWaited{}
			c.pairs[p] = one
		}
		one.total += w.Time
	}
}

// next ends an interval and begins the next one. Pairs that are not shown and did not wait are forgotten.
func (c *contention) next() {
	c.mu.Lock()
	defer c.mu.Unlock()
	lately := func(p pair) time.Duration { return c.pairs[p].total - c.pairs[p].before }
	all := slices.SortedFunc(maps.Keys(c.pairs), func(a, b pair) int { return cmp.Compare(lately(b), lately(a)) })
	for i, p := range all {
		one := c.pairs[p]
		if one.shown > 0 {
			one.live, one.sent = true, one.total
		}
		if one.shown = max(0, one.shown-1); i < heaviestPairs && lately(p) > 0 {
			one.shown = showPairs
		}
		one.live = one.live && one.shown > 0
		if one.shown == 0 && lately(p) == 0 {
			delete(c.pairs, p)
		}
		one.before = one.total
	}
}

// collect sends for how long containers waited, the heaviest pairs, and what sampling costs.
func (c *contention) collect(out chan<- prometheus.Metric) {
	all, alone := c.collectSampled(out), map[string]int{} // containers of each pod
	for group := range all {
		alone[path.Dir(group)]++
	}
	waited := waitedFamily(out)
	for group, labels := range all { // without mu, for which a decision may wait
		if t, known := throttledTime(c.groups, group, alone[path.Dir(group)] == 1); known {
			waited(t.Seconds(), append(labels[:], "limit")...)
		}
	}
}

func waitedFamily(out chan<- prometheus.Metric) family {
	return counter(out, "container_cpu_waiting_seconds_total", "CPU time in which a thread of the container was ready to run and did not run: "+
		"for its limit or that of its pod, behind others, or behind its own threads.", containerLabels("behind")...)
}

// collectSampled sends what was sampled, and returns the labels of the containers.
func (c *contention) collectSampled(out chan<- prometheus.Metric) map[string][3]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[string][3]string, len(c.containers))
	gauge(out, "contention_running", "1 while it is sampled who waits for CPUs.")(oneIf(c.running))
	for group, one := range c.containers {
		all[group] = one.labels
	}
	if !c.running && c.passed.Samples == 0 {
		return all // the kernel cannot
	}
	waited := waitedFamily(out)
	for _, one := range c.containers {
		waited(one.others.Seconds(), append(one.labels[:], "others")...)
		waited(one.own.Seconds(), append(one.labels[:], "own")...)
	}
	counter(out, "contention_seconds_total", "CPU time in which a thread of a container was ready to run and did not run, behind others, summed over containers.")(c.total.Seconds())
	pairs := counter(out, "contention_pair_seconds_total", "CPU time for which a workload waited behind another, of pairs that were among the ten heaviest of a minute in the last hour.",
		"namespace", "workload", "behind_namespace", "behind")
	for p, one := range c.pairs {
		if one.shown > 0 {
			pairs(one.waited().Seconds(), p.victim.namespace, p.victim.name, p.behind.namespace, p.behind.name)
		}
	}
	cost := c.passed.Plus(c.cost)
	counter(out, "contention_samples_total", "Samples of CPUs.")(float64(cost.Samples))
	counter(out, "contention_lost_total", "Samples that do not say of all threads who waited.")(float64(cost.Cut + cost.Lost))
	counter(out, "contention_cpu_seconds_total", "CPU time that sampling who waits for CPUs has used in the kernel.")(cost.Time.Seconds())
	return all
}

// throttledTime returns for how long a container was throttled at least, summed over CPUs: by its limit, or
// by that of its pod if it is alone there or its own has never throttled it. The two overlap, because the
// kubelet sets both.
func throttledTime(groups *cgroup.FS, group string, alone bool) (d time.Duration, known bool) {
	own, err := cgroupstat.Read(groups, group)
	if err != nil {
		return 0, false
	}
	if own.ThrottledTime > 0 && !alone {
		return own.ThrottledTime, true
	}
	pod, err := cgroupstat.Read(groups, path.Dir(group))
	return max(own.ThrottledTime, pod.ThrottledTime), err == nil
}
