package schedtrace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/linux/cgroup"
)

// Observation is where the time of threads went, with the names of groups and processes.
type Observation struct {
	*blame.Report
	Cost Cost
	// Subjects are the observed groups, by path.
	Subjects map[string]blame.Group
	// Timelines are those of the observed groups, if they were requested.
	Timelines map[blame.Group]*blame.Timeline

	parents   map[blame.Group]blame.Group
	groups    map[blame.Group]string // paths
	proc      string                 // directory of all processes, "" without one
	processes map[int]string         // names
	most      int                    // of processes, before those without use are forgotten
}

// Above returns the next group above a group, 0 if that is the root.
func (o *Observation) Above(g blame.Group) blame.Group { return o.parents[g] }

// Path returns the path of a group in the hierarchy, "" if it is not known.
func (o *Observation) Path(g blame.Group) string { return o.groups[g] }

// Process returns the name of a process, "" if it ended before its name was read.
func (o *Observation) Process(id int) string { return o.processes[id] }

// Request is what to observe.
type Request struct {
	Groups   []string      // paths; groups below them count as parts of them
	Duration time.Duration // 0 for no end
	Longest  int           // delays to report per group
	// MaxSpans limits the spans of each group's timeline; 0 means no timelines.
	MaxSpans int
	// Passed, if not nil, is called again and again with the time since the start.
	Passed func(time.Duration)
	// Started, if not nil, is called when the states of all threads are known.
	Started func()
	// Span, if not nil, receives what each thread did, with the group for which it counts; see
	// blame.Options.
	Span func(*Observation, blame.Group, blame.Span)
	// Edge, if not nil, receives the edges of the quotas' periods.
	Edge func(*Observation, blame.Event)
}

// planEvery is how often groups that were made meanwhile are looked for.
const planEvery = time.Second

// Observe traces groups for a time, or until ctx ends. If tracing ends because of an error, it
// returns what was observed until then, too.
func Observe(ctx context.Context, groups *cgroup.FS, request Request, options Options) (*Observation, error) {
	for _, subject := range request.Groups {
		if err := groups.CheckEnabled(subject, cgroup.CPU); err != nil {
			return nil, err // the scheduler counts its threads for a group above
		}
	}
	t, err := Open(options)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	o := &Observation{Subjects: map[string]blame.Group{}, groups: map[blame.Group]string{}, proc: machineProc(groups.Root()), processes: map[int]string{}, most: maxNames}
	wanted := []string{"/"}
	for _, subject := range request.Groups {
		wanted = append(wanted, path.Clean(subject))
	}
	ids, errList := o.learn(groups, wanted)
	options.tell(errList)
	subjects := map[string]blame.Group{}
	for _, subject := range request.Groups {
		id, ok := ids[path.Clean(subject)]
		if !ok {
			_, err := groups.Inode(cgroup.CPU, subject)
			return nil, cmp.Or(err, fmt.Errorf("%s: %w", subject, cgroup.ErrGone))
		}
		o.Subjects[subject], subjects[path.Clean(subject)] = id, id
	}
	p := newPlan(ids, subjects, len(ids))
	if _, err := t.follow(plan{}, p); err != nil {
		return nil, err
	}
	watched := blame.Options{Watched: p.watched, Above: p.above, Longest: request.Longest}
	o.parents = p.above
	if watched.Start, err = t.Start(); err != nil {
		return nil, err
	}
	if request.Started != nil {
		request.Started()
	}
	if request.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, request.Duration)
		defer cancel()
	}
	if request.MaxSpans > 0 {
		o.Timelines = map[blame.Group]*blame.Timeline{}
		for _, g := range o.Subjects {
			o.Timelines[g] = &blame.Timeline{Group: g, Watched: p.watched, MaxSpans: request.MaxSpans}
		}
	}
	watched.Span = func(s blame.Span) {
		group := p.watched[s.Thread.Group]
		if timeline := o.Timelines[group]; timeline != nil {
			timeline.Add(s)
		}
		if request.Span != nil {
			request.Span(o, group, s)
		}
	}
	analysis := blame.New(watched)
	planned := watched.Start
	t.between = func(until time.Duration) error {
		if request.Passed != nil {
			request.Passed(until - watched.Start)
		}
		if until < planned+planEvery {
			return nil
		}
		planned = until
		ids, _ := o.learn(groups, wanted) // told at the start
		next := newPlan(ids, subjects, len(ids))
		added, err := t.follow(p, next)
		if err != nil || !added {
			return err // groups that are gone do no harm
		}
		maps.Copy(p.watched, next.watched)
		maps.Copy(p.above, next.above)
		maps.Copy(p.trace, next.trace)
		return t.Snapshot()
	}
	until, err := t.Run(ctx, func(e blame.Event) {
		o.meet(e.Thread, p)
		o.meet(e.Other, p)
		analysis.Add(e)
		if len(o.processes) > o.most {
			o.keep(analysis.Report(e.Time).Processes())
		}
		if e.Kind == blame.Edge && request.Edge != nil {
			request.Edge(o, e)
		}
	})
	o.Report = analysis.Report(until)
	_, _ = o.learn(groups, wanted)
	var errCost error
	o.Cost, errCost = t.Cost()
	return o, errors.Join(err, errCost)
}

// learn reads the names of groups, of those below and those above, and returns them by path.
func (o *Observation) learn(groups *cgroup.FS, wanted []string) (map[string]blame.Group, error) {
	ids, err := Groups(groups, wanted...)
	for name, id := range ids {
		o.groups[id] = name
	}
	return ids, err
}

// meet reads the name of a thread's process if it is not known yet, and needed: in groups that are
// not observed, only those outside of containers are named. It may have ended.
func (o *Observation) meet(t blame.Thread, p plan) {
	id := t.Process
	if _, known := o.processes[id]; id <= 0 || known || o.proc == "" {
		return
	}
	if group := o.groups[t.Group]; p.watched[t.Group] == 0 && group != "/" && group != "" {
		return
	}
	text, _ := os.ReadFile(filepath.Join(o.proc, strconv.Itoa(id), "comm"))
	o.processes[id] = strings.TrimSpace(string(text))
}

// maxNames is the number of processes after which the first are forgotten.
const maxNames = 10_000

// keep forgets the names of processes that a report would not need now.
func (o *Observation) keep(needed map[int]bool) {
	maps.DeleteFunc(o.processes, func(id int, _ string) bool { return !needed[id] })
	o.most = maxNames + 2*len(o.processes)
}

// initialPIDs is the PID namespace of the machine: PROC_PID_INIT_INO of include/linux/proc_ns.h.
const initialPIDs = "pid:[4026531836]"

// machineProc returns the directory of the machine's processes under their numbers in events, which
// are those in the initial PID namespace, or "". In another namespace, /proc has other processes
// under these numbers; a root that is mounted elsewhere has the machine's own.
func machineProc(root string) string {
	if filepath.Clean(root) != "/" {
		return filepath.Join(root, "proc")
	}
	if pids, err := os.Readlink("/proc/self/ns/pid"); err == nil && pids == initialPIDs {
		return "/proc"
	}
	return ""
}
