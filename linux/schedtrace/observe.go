package schedtrace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
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
	processes map[int]string         // names
}

// Above returns the next group above a group, 0 if that is the root.
func (o *Observation) Above(g blame.Group) blame.Group { return o.parents[g] }

// Path returns the path of a group in the hierarchy, "" if it is not known.
func (o *Observation) Path(g blame.Group) string { return o.groups[g] }

// Process returns the name of a process, "" if it ended before its name was read.
func (o *Observation) Process(id int) string { return o.processes[id] }

// Request is what to observe.
type Request struct {
	Groups   []string // paths; groups below them count as parts of them
	Duration time.Duration
	Longest  int // delays to report per group
	// Pieces is the largest number of pieces of the groups' timelines, 0 for no timelines.
	Pieces int
}

// Observe traces groups for a time, or until ctx ends. Groups that are made below them meanwhile are not
// observed. If tracing ends because of an error, it returns what was observed until then, too.
func Observe(ctx context.Context, groups *cgroup.FS, request Request, options Options) (*Observation, error) {
	t, err := Open(options)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	o := &Observation{Subjects: map[string]blame.Group{}, groups: map[blame.Group]string{}, processes: map[int]string{}}
	o.learn(groups)
	watched := blame.Options{Watched: map[blame.Group]blame.Group{}, Above: map[blame.Group]blame.Group{}, Longest: request.Longest}
	paths := slices.SortedFunc(slices.Values(request.Groups), func(a, b string) int { return len(a) - len(b) })
	for _, p := range paths { // inner groups last, so that they count for themselves
		if err := o.watch(t, groups, p, &watched); err != nil {
			return nil, err
		}
	}
	o.parents = watched.Above
	if watched.Start, err = t.Start(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, request.Duration)
	defer cancel()
	if request.Pieces > 0 {
		o.Timelines = map[blame.Group]*blame.Timeline{}
		for _, g := range o.Subjects {
			o.Timelines[g] = &blame.Timeline{Group: g, Watched: watched.Watched, Most: request.Pieces}
		}
		watched.Span = func(s blame.Span) {
			if timeline := o.Timelines[watched.Watched[s.Thread.Group]]; timeline != nil {
				timeline.Add(s)
			}
		}
	}
	analysis := blame.New(watched)
	until, err := t.Run(ctx, func(e blame.Event) {
		o.meet(e.Thread.Process)
		o.meet(e.Other.Process)
		analysis.Add(e)
	})
	o.Report = analysis.Report(until)
	o.learn(groups)
	var errCost error
	o.Cost, errCost = t.Cost()
	return o, errors.Join(err, errCost)
}

// watch makes a tracer trace a group, those below it, and the quotas of those above it.
func (o *Observation) watch(t *Tracer, groups *cgroup.FS, subject string, watched *blame.Options) error {
	root := groups.Dir(cgroup.CPU, "/")
	dirs, err := cgroup.DirsBelow(groups.Dir(cgroup.CPU, subject))
	if err != nil {
		return err
	}
	id, err := groups.Inode(cgroup.CPU, subject)
	if err != nil {
		return err
	}
	o.Subjects[subject] = blame.Group(id)
	for _, dir := range dirs {
		inode, err := groups.Inode(cgroup.CPU, strings.TrimPrefix(dir, root))
		if errors.Is(err, cgroup.ErrGone) {
			continue
		}
		if err == nil {
			watched.Watched[blame.Group(inode)] = blame.Group(id)
			err = t.Set(blame.Group(inode), Threads|Quota)
		}
		if err != nil {
			return err
		}
		if err := o.above(t, groups, strings.TrimPrefix(dir, root), watched); err != nil {
			return err
		}
	}
	return nil
}

// above makes a tracer trace the quotas of the groups above a group.
func (o *Observation) above(t *Tracer, groups *cgroup.FS, below string, watched *blame.Options) error {
	child, err := groups.Inode(cgroup.CPU, below)
	for p := path.Dir(path.Clean("/" + below)); err == nil && p != "/"; p = path.Dir(p) {
		var parent uint64
		if parent, err = groups.Inode(cgroup.CPU, p); err != nil {
			break
		}
		watched.Above[blame.Group(child)] = blame.Group(parent)
		if watched.Watched[blame.Group(parent)] == 0 {
			err = t.Set(blame.Group(parent), Quota)
		}
		child = parent
	}
	return err
}

// learn reads the names of all groups.
func (o *Observation) learn(groups *cgroup.FS) {
	root := groups.Dir(cgroup.CPU, "/")
	dirs, _ := cgroup.DirsBelow(root)
	for _, dir := range dirs {
		group := path.Clean("/" + strings.TrimPrefix(dir, root))
		if inode, err := groups.Inode(cgroup.CPU, group); err == nil {
			o.groups[blame.Group(inode)] = group
		}
	}
}

// meet reads the name of a process that is not known yet. It may have ended.
func (o *Observation) meet(id int) {
	if _, known := o.processes[id]; id <= 0 || known {
		return
	}
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", id))
	o.processes[id] = strings.TrimSpace(string(text))
}
