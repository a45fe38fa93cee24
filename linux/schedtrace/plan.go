package schedtrace

import (
	"cmp"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"

	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
)

// Groups returns some groups of the machine, and all above and below them, by path. It leaves out
// those that have ended. Beside an error are the groups that can be listed.
func Groups(groups *cgroup.FS, from ...string) (map[string]blame.Group, error) {
	ids, root, errs := map[string]blame.Group{}, groups.Dir(cgroup.CPU, "/"), []error{}
	add := func(group string) {
		if inode, err := groups.Inode(cgroup.CPU, group); err == nil {
			ids[group] = blame.Group(inode)
		} else if !cgroup.IsGone(err) {
			errs = append(errs, err)
		}
	}
	for _, group := range slices.SortedFunc(slices.Values(from), outerFirst) {
		group = path.Clean("/" + group)
		if _, known := ids[group]; known {
			continue // listed with a group above
		}
		for above := group; above != "/"; {
			above = path.Dir(above)
			if _, known := ids[above]; !known {
				add(above)
			}
		}
		dirs, err := cgrouptree.DirsBelow(groups.Dir(cgroup.CPU, group))
		errs = append(errs, err)
		for _, dir := range dirs {
			add(path.Clean("/" + strings.TrimPrefix(dir, root)))
		}
	}
	return ids, errors.Join(errs...)
}

// plan is what to trace of which groups.
type plan struct {
	watched, above map[blame.Group]blame.Group // as in blame.Options
	trace          map[blame.Group]Watch
}

func outerFirst(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

// newPlan returns what to trace for some subjects: the threads of these groups and of those below
// them, and the quotas of these and of all above them. The threads of a group count for the nearest
// subject. If more than most groups count for one subject, those with the longest paths are left
// out. ids are the groups of the machine, subjects some of them, both by path.
func newPlan(ids, subjects map[string]blame.Group, most int) plan {
	p := plan{map[blame.Group]blame.Group{}, map[blame.Group]blame.Group{}, map[blame.Group]Watch{}}
	inner := map[blame.Group]int{}
	for _, name := range slices.SortedFunc(maps.Keys(ids), outerFirst) {
		group := ids[name]
		subject, found := nearest(subjects, name)
		if found {
			inner[subject]++
		}
		if !found || inner[subject] > most {
			continue
		}
		p.watched[group] = subject
		p.trace[group] |= Threads | Quota
		for above := path.Dir(name); above != "/" && name != "/"; above = path.Dir(above) {
			p.above[group] = ids[above]
			group = ids[above]
			p.trace[group] |= Quota
		}
	}
	if root, found := subjects["/"]; found {
		p.watched[noGroup], p.trace[noGroup] = root, Threads
	}
	return p
}

// noGroup is the group of threads in an automatic group of their session, which has no directory:
// with CONFIG_SCHED_AUTOGROUP the scheduler makes one for each session whose threads are in the root
// group (kernel/sched/autogroup.c of Linux 6.18).
const noGroup blame.Group = 0

// nearest returns the subject that a group is, or that is nearest above it.
func nearest(subjects map[string]blame.Group, name string) (subject blame.Group, found bool) {
	for ; ; name = path.Dir(name) {
		if subject, found = subjects[name]; found || name == "/" {
			return subject, found
		}
	}
}

// follow traces what a plan says, in addition to what the last plan said. It reports whether there
// are threads to trace whose states are not known.
func (t *Tracer) follow(last, p plan) (added bool, err error) {
	for group, what := range p.trace {
		if last.trace[group]&what == what {
			continue
		}
		if err := t.Set(group, what|last.trace[group]); err != nil {
			return false, err
		}
		added = added || what&Threads != 0
	}
	return added, nil
}
