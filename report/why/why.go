// Package why formats where the time of containers went, as text ([Report.Text]) and JSON
// ([Report.JSON]): how long they ran, were throttled and waited for CPUs, behind what, and what
// that means. The times come from package blame.
package why

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/core/quantity"
)

// Report is what was observed.
type Report struct {
	*blame.Report
	Containers []Container
	// Waited names what a thread waited behind. Processes of a container have one name.
	Waited func(blame.Occupant) string
	// Process names a process, or returns "".
	Process func(id int) string
	Kind    func(blame.Group) Kind
	// Yields reports whether a group that is made batch work leaves its CPUs to another one.
	Yields func(group, to blame.Group) bool
	Events uint64 // that were lost
	Ended  string // why it ended early, "" if it did not
	// Histogram adds to the text how long each wait and each throttling was.
	Histogram bool
}

// Container is one container, or another group.
type Container struct {
	Name     string
	Group    blame.Group
	Limits   bandwidth.Limits // without a period they are unknown
	Above    []blame.Group    // the groups above it
	Requests *Requests        // nil without a log
}

// limit returns the limit in CPUs, 0 for none.
func (c *Container) limit() quantity.CPUs {
	if c.Limits.Period <= 0 {
		return 0
	}
	cpus, _ := c.Limits.CPUs()
	return quantity.CPUs(cpus)
}

// burstIsLargest reports whether its burst cannot be raised.
func (c *Container) burstIsLargest() bool { return c.Limits.Burst >= c.Limits.Quota }

// waits are times spent waiting, by the name of what was waited for.
type waits struct {
	name string
	time time.Duration
	by   blame.Occupant // of that name
}

// behind returns what threads of a group waited behind, longest first. What is beyond the first
// most is summed up.
func (r *Report) behind(p *blame.Parts, own blame.Group, most int) []waits {
	byName := map[string]waits{}
	for by, d := range p.Behind {
		name := Behind(by, own, r.Waited)
		byName[name] = waits{name, byName[name].time + d, by}
	}
	var all []waits
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		all = append(all, byName[name])
	}
	slices.SortStableFunc(all, func(a, b waits) int { return cmp.Compare(b.time, a.time) })
	if len(all) <= most+1 {
		return all
	}
	rest := waits{name: "others"}
	for _, w := range all[most:] {
		rest.time += w.time
	}
	return append(all[:most], rest)
}

// neighbour returns what threads of a group waited behind most, other than each other.
func (r *Report) neighbour(p *blame.Parts, own blame.Group) waits {
	for _, w := range r.behind(p, own, len(p.Behind)) {
		if w.by.Seen() && w.by.Process != 0 && w.by.Group != own {
			return w
		}
	}
	return waits{}
}

// edges returns how many periods of a group's own quota were throttled, of how many.
func (r *Report) edges(g blame.Group) (throttled, all uint32) {
	sum := r.Groups[g]
	if sum == nil || sum.First == nil {
		return 0, 0
	}
	return sum.Last.Throttled - sum.First.Throttled, sum.Last.Periods - sum.First.Periods
}

// periods returns how many periods of a quota were throttled, of how many: those of the container
// or, if they are more, of a group above it.
func (r *Report) periods(c *Container) (throttled, all uint32) {
	for _, g := range append([]blame.Group{c.Group}, c.Above...) {
		if n, of := r.edges(g); all == 0 || n > throttled {
			throttled, all = n, of
		}
	}
	return throttled, all
}

// above returns the group above a container whose quota throttled it, 0 if the container's own did or
// neither was seen.
func (r *Report) above(c *Container) (by blame.Group) {
	most, _ := r.edges(c.Group)
	if most > 0 {
		return 0
	}
	for _, g := range c.Above {
		if n, _ := r.edges(g); n > most {
			by, most = g, n
		}
	}
	return by
}

func (r *Report) verdict(c *Container) blame.Verdict {
	limit := c.limit()
	if r.above(c) != 0 {
		limit = 0 // its own did not matter
	}
	return r.Groups[c.Group].Verdict(r.observed(), limit)
}

func (r *Report) observed() time.Duration { return r.To - r.From }

// Behind returns what a thread of a group waited behind. name names other groups and processes.
func Behind(by blame.Occupant, own blame.Group, name func(blame.Occupant) string) string {
	switch {
	case !by.Seen():
		return "something that was not seen"
	case by.Process == 0:
		return "an idle CPU that had to wake up"
	case by.Group == own:
		return "its own threads"
	}
	return name(by)
}
