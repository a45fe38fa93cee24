package control

import (
	"maps"
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/linux/cgroup"
)

// Pending is what an agent that enforces would change in a cgroup.
type Pending struct {
	Group string `json:"group"`
	// Pod is NAMESPACE/NAME, and Container is "" for the pod's own group. Both are "" for unknown
	// groups and tiers.
	Pod       string       `json:"pod,omitempty"`
	Container string       `json:"container,omitempty"`
	Files     []FileChange `json:"files"`
}

// FileChange is the present and the wanted content of a file.
type FileChange struct {
	File   cgroup.File `json:"file"`
	Now    string      `json:"now"`
	Wanted string      `json:"wanted"`
}

// observe returns the decision of an agent that only observes: it gives back what an earlier agent
// has written, and says what one that enforces would do. The status that follows is about the
// settings of the kubelet, which are in force.
func (c *Control) observe(wanted Decision, limits bool) Decision {
	r := &c.round
	pending := c.pending(new(stakes).keep(wanted, r, limits))
	findings := r.Plan.Findings
	for i := range c.Pods.All {
		if _, has := r.Claims[c.Pods.All[i].Object.UID]; has && r.Binds {
			findings = append(findings, nodeplan.Finding{Kind: nodeplan.NotBound, Pod: c.Pods.All[i].Plan.ID, Reason: observing})
		}
	}
	d := c.restore()
	r.Plan.Findings = findings
	d = c.stakes.keep(d, r, false)
	d.Pending = pending
	return d
}

// pending returns what a decision would change.
func (c *Control) pending(d Decision) (all []Pending) {
	k := &recorder{layout: c.round.Layout, settings: maps.Clone(c.round.Settings)}
	d.Execute(k)
	pods, containers := map[string]string{}, map[string]string{}
	for i := range c.round.Planned {
		l := &c.round.Planned[i]
		pods[l.Path], containers[l.Path] = l.Pod.Name(), l.Ref.Container
	}
	for _, group := range slices.Sorted(maps.Keys(k.written)) {
		p := Pending{Group: group, Pod: pods[group], Container: containers[group]}
		for _, f := range slices.Sorted(maps.Keys(k.written[group])) {
			if now, wanted := c.round.Settings[group].Format(f), k.settings[group].Format(f); now != wanted {
				p.Files = append(p.Files, FileChange{f, now, wanted})
			}
		}
		if len(p.Files) > 0 {
			all = append(all, p)
		}
	}
	return all
}

// recorder is a kernel that records what would be written.
type recorder struct {
	layout   cgroup.Layout
	settings map[string]cgroup.Settings
	written  map[string]map[cgroup.File]bool
}

// Apply implements [Kernel].
func (k *recorder) Apply(wanted map[string]cgroup.Wanted) cgroup.Outcome {
	var changes []cgroup.Change
	for _, group := range slices.Sorted(maps.Keys(wanted)) {
		changes = append(changes, cgroup.Change{Path: group, Present: k.settings[group], Wanted: wanted[group]})
	}
	writes, _ := cgroup.Plan(k.layout, changes) // without what the kernel would refuse
	for _, c := range changes {
		k.settings[c.Path] = c.Target()
	}
	if k.written == nil {
		k.written = map[string]map[cgroup.File]bool{}
	}
	for _, w := range writes {
		if k.written[w.Path] == nil {
			k.written[w.Path] = map[cgroup.File]bool{}
		}
		k.written[w.Path][w.File] = true
	}
	return cgroup.Outcome{Written: writes}
}

// Effective implements [Kernel].
func (k *recorder) Effective(group string) (cpuset.Set, error) { return k.settings[group].CPUs, nil }

// ThreadCPUs implements [Kernel].
func (k *recorder) ThreadCPUs(string) (cpuset.Set, error) { return cpuset.Set{}, cgroup.ErrGone }
