package control

import (
	"errors"
	"maps"
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/linux/cgroup"
)

// GiveBack returns the actions that restore the settings of the kubelet with the CPU manager policy
// none: all CPUs for every group, including groups of unknown containers, and every limit as a
// quota.
func (c *Control) GiveBack() Actions {
	if hold := c.hold(); hold != "" {
		return Actions{Hold: hold}
	}
	g := c.locate()
	state := c.state(g)
	d := nodeplan.Kubelet(state)
	c.desired = newDesired(state, d)
	a := Actions{Widen: map[string]cgroup.Wanted{}, Rest: map[string]cgroup.Wanted{}, Held: map[string]Holding{}}
	c.widen(&a, d, g)
	if c.bound() {
		c.unbind(&a, g)
	}
	c.exclusive = map[string]cpuset.Set{}
	clear(c.foreignOwned)
	c.bandwidth(&a, c.limitedGroups(d, g))
	return a
}

// unbind gives every container all CPUs; on version 2, where the kubelet gives none a list
// of its own, those of the group above.
func (c *Control) unbind(a *Actions, g groups) {
	online := c.machine().Online()
	if c.view.Layout.CPUSet == cgroup.V2 {
		for _, path := range slices.Concat(slices.Collect(maps.Values(g.containers)), slices.Collect(maps.Values(g.pods))) {
			if s, ok := c.view.Settings[path]; ok && !s.CPUs.IsEmpty() {
				a.Widen[path] = cgroup.Wanted{CPUs: &cpuset.Set{}}
			}
		}
		return
	}
	for _, path := range slices.Sorted(maps.Values(g.containers)) {
		if c.exists(path) && c.held(path) != online {
			a.Moves = append(a.Moves, Move{Path: path, CPUs: online})
		}
	}
}

// Err returns all failures joined into one error, except those of groups that have disappeared.
func (r Result) Err() error {
	var errs []error
	for _, path := range slices.Sorted(maps.Keys(r.Failed)) {
		if err := r.Failed[path]; !errors.Is(err, cgroup.ErrGone) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
