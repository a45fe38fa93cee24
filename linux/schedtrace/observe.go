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
	watched, trace, err := o.plan(o.learn(groups), request)
	if err != nil {
		return nil, err
	}
	for group, what := range trace {
		if err := t.Set(group, what); err != nil {
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

// plan returns whose threads count for which group, and what to trace of each group: the threads of those
// requested and of those below them, and the quotas of these and of all above them. ids are the groups
// of the machine, by path.
func (o *Observation) plan(ids map[string]blame.Group, request Request) (blame.Options, map[blame.Group]Watch, error) {
	options := blame.Options{Watched: map[blame.Group]blame.Group{}, Above: map[blame.Group]blame.Group{}, Longest: request.Longest}
	trace := map[blame.Group]Watch{}
	subjects := slices.SortedFunc(slices.Values(request.Groups), func(a, b string) int { return len(a) - len(b) })
	for _, subject := range subjects { // inner groups last, so that they count for themselves
		id, ok := ids[path.Clean(subject)]
		if !ok {
			return options, nil, fmt.Errorf("%s: %w", subject, cgroup.ErrGone)
		}
		o.Subjects[subject] = id
		for name, group := range ids {
			if !strings.HasPrefix(name+"/", strings.TrimSuffix(path.Clean(subject), "/")+"/") {
				continue
			}
			options.Watched[group] = id
			trace[group] |= Threads | Quota
			for above := path.Dir(name); above != "/" && name != "/"; above = path.Dir(above) {
				options.Above[group] = ids[above]
				group = ids[above]
				trace[group] |= Quota
			}
		}
	}
	return options, trace, nil
}

// learn reads the names of all groups, and returns the groups by path.
func (o *Observation) learn(groups *cgroup.FS) map[string]blame.Group {
	ids := map[string]blame.Group{}
	root := groups.Dir(cgroup.CPU, "/")
	dirs, _ := cgroup.DirsBelow(root)
	for _, dir := range dirs {
		group := path.Clean("/" + strings.TrimPrefix(dir, root))
		if inode, err := groups.Inode(cgroup.CPU, group); err == nil {
			ids[group], o.groups[blame.Group(inode)] = blame.Group(inode), group
		}
	}
	return ids
}

// meet reads the name of a process that is not known yet. It may have ended.
func (o *Observation) meet(id int) {
	if _, known := o.processes[id]; id <= 0 || known {
		return
	}
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", id))
	o.processes[id] = strings.TrimSpace(string(text))
}
