package why

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// The groups of the tests.
const (
	web blame.Group = iota + 1
	batch
	system
)

// observed returns what was observed in 10 s of a container with a limit of two CPUs, in which the
// kernel has refilled its quota 100 times. parts are those of its threads.
func observed(parts ...blame.Parts) *Report {
	sum := &blame.Sum{First: &blame.Quota{Periods: 7, Throttled: 5}, Last: &blame.Quota{Periods: 107, Throttled: 50}}
	for i, p := range parts {
		sum.Active = max(sum.Active, p.Runnable())
		id := 1001 + i
		thread := blame.Thread{ID: id, Process: 1001, Group: web}
		sum.Threads = append(sum.Threads, blame.ThreadSum{Thread: thread, Parts: p})
		sum.Add(&p)
	}
	return &Report{
		Report:     &blame.Report{From: time.Minute, To: time.Minute + 10*time.Second, Groups: map[blame.Group]*blame.Sum{web: sum}},
		Containers: []Container{{Name: "default/web/app", Group: web, Limits: bandwidth.Limits{Quota: 200 * time.Millisecond, Period: 100 * time.Millisecond}}},
		Waited: func(by blame.Occupant) string {
			return map[blame.Group]string{batch: "default/batch/pi", system: fmt.Sprint("/system.slice/s", by.Process, ".service")}[by.Group]
		},
		Kind:    func(g blame.Group) Kind { return map[blame.Group]Kind{web: Pod, batch: Pod}[g] },
		Yields:  func(g, _ blame.Group) bool { return g == batch },
		Process: func(id int) string { return map[int]string{1001: "server"}[id] },
	}
}

func times(running, throttled, sleeping time.Duration) blame.Parts {
	return blame.Parts{Running: running, Throttled: throttled, Sleeping: sleeping}
}

// reports are one of each conclusion.
func reports() map[string]*Report {
	const s, ms = time.Second, time.Millisecond
	waiting := times(4*s, 0, 3*s)
	for by, d := range map[blame.Occupant]time.Duration{{Group: batch, Process: 1}: 2 * s, {Group: batch, Process: 2}: 500 * ms, {Process: 0}: 20 * ms,
		{Group: web, Process: 1001}: 80 * ms, {Process: -1}: 10 * ms} {
		waiting.Count(blame.Waiting, by, web, d)
	}
	for i := range 6 {
		waiting.Count(blame.Waiting, blame.Occupant{Group: system, Process: 10 + i}, web, time.Duration(60+i)*ms)
	}
	siblings := times(5*s, 0, 0)
	siblings.Count(blame.Waiting, blame.Occupant{Group: web, Process: 1001}, web, 5*s)
	many := make([]blame.Parts, 10)
	for i := range many {
		many[i] = times(s/10, s/2, 9*s)
	}
	all := map[string]*Report{
		"idle":        observed(times(2*ms, 0, 10*s-2*ms)),
		"not-delayed": observed(times(6*s, 0, 4*s)),
		"quota":       observed(times(9*s, 1*s, 0), times(9*s, 1*s, 0)),
		"bursts":      observed(times(3*s, 3*s, 4*s), times(2*s, 1*s, 7*s)),
		"parallelism": observed(many...),
		"neighbours":  observed(waiting),
		"own-threads": observed(siblings, siblings),
		"machine":     observed(blame.Parts{Running: 5 * s, Stolen: s, Sleeping: 4 * s}),
	}
	unseen := times(8*s, 0, 0)
	unseen.Count(blame.Waiting, blame.Occupant{Process: -1}, web, 2*s)
	all["unseen"] = observed(unseen)
	above := observed(times(5*s, 5*s, 0))
	above.Containers[0].Limits.Quota = bandwidth.Unlimited
	all["limit-above"] = above
	byParent := observed(times(3*s, 3*s, 4*s)) // and its own quota was never used up
	byParent.Containers[0].Above = []blame.Group{system}
	byParent.Groups[system] = &blame.Sum{First: &blame.Quota{}, Last: &blame.Quota{Periods: 100, Throttled: 40}}
	byParent.Groups[web].Last.Throttled = byParent.Groups[web].First.Throttled
	all["quota-above"] = byParent
	all["bursts-all"] = observed(times(3*s, 3*s, 4*s), times(2*s, 1*s, 7*s))
	all["bursts-all"].Containers[0].Limits.Burst = all["bursts-all"].Containers[0].Limits.Quota
	all["limit-unknown"] = observed(times(5*s, 5*s, 0))
	all["limit-unknown"].Containers[0].Limits = bandwidth.Limits{}
	all["contended-pod"], all["contended-run"], all["contended-service"] = contended(Pod, AnyGroup), contended(Run, Run), contended(AnyGroup, NoGroup)
	all["contended-part"] = contended(Pod, Pod) // of a CPU is its limit
	all["contended-part"].Containers[0].Limits.Quota = 30 * ms
	crowd := times(s/2, 5*s, 0)
	crowd.Count(blame.Waiting, blame.Occupant{Group: web, Process: 1001}, web, 4*s)
	compilers := times(7*s, 0, 0)
	for i, d := range []time.Duration{600, 500, 500, 700} {
		compilers.Count(blame.Waiting, blame.Occupant{Group: system, Process: 10 + i}, web, d*ms)
	}
	all["processes"] = observed(compilers)
	all["processes"].Waited = func(by blame.Occupant) string {
		return cmp.Or(map[int]string{13: "process make"}[by.Process], "process cc")
	}
	all["many-threads"] = observed(slices.Repeat([]blame.Parts{crowd}, 20)...)
	lost := observed(times(5*s, 0, 3*s))
	lost.Groups[web].Unknown, lost.Lost, lost.Events, lost.Missed, lost.Ended = 2*s, 2*s, 12345, 1, "It ended early: too expensive."
	lost.Containers[0].Limits.Quota = bandwidth.Unlimited
	lost.Groups[web].First = nil
	all["lost"] = lost
	b := all["bursts"].Groups[web]
	b.Longest = []blame.Delay{
		{Thread: b.Threads[0].Thread, From: time.Minute + 3*s, Parts: blame.Parts{Throttled: 80 * ms, Others: 5 * ms, Idle: 10 * time.Microsecond,
			Behind: map[blame.Occupant]time.Duration{{Group: batch, Process: 1}: 5 * ms, {Process: 0}: 10 * time.Microsecond}}},
		{Thread: blame.Thread{ID: 5, Process: 5, Group: web}, From: time.Minute - s, Parts: blame.Parts{Throttled: 60 * ms}},
	}
	return all
}

// contended is a report on a group that is throttled for 14% of the time in which it wants to run,
// and waits for longer.
func contended(group, neighbour Kind) *Report {
	const ms = time.Millisecond
	parts := times(6300*ms, 1400*ms, 0)
	parts.Count(blame.Waiting, blame.Occupant{Group: batch, Process: 1}, web, 1200*ms)
	parts.Count(blame.Waiting, blame.Occupant{Group: web, Process: 1001}, web, 1100*ms)
	r := observed(parts)
	r.Histogram = true
	r.Kind = func(g blame.Group) Kind { return map[blame.Group]Kind{web: group, batch: neighbour}[g] }
	sum := r.Groups[web]
	sum.Waits = blame.Histogram{0: 3, 3: 250, 4: 100, 21: 1}
	sum.Throttlings = blame.Histogram{14: 20, 15: 25}
	return r
}

// TestReports prints each report in testdata as text and JSON.
func TestReports(t *testing.T) {
	all := reports()
	golden.Archives(t, "testdata/*.txtar", "json", func(t *testing.T, archive *txtar.Archive) string {
		r := all[strings.TrimSpace(string(archive.Comment))]
		if r == nil {
			t.Fatalf("no report is called %q", archive.Comment)
		}
		data := must.Get(json.MarshalIndent(r.JSON(), "", "  "))(t)
		return string(data) + "\n"
	})
	for name, r := range all {
		var out strings.Builder
		must.Do(t, r.Text(&out))
		golden.Compare(t, "testdata/"+name+".txt", out.String())
	}
}
