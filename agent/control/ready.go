package control

import (
	"slices"
	"time"

	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/kube/api"
)

// Ready is what is to be done next. [Control.Advance] follows when it is done, and another Ready: at once
// after Read, Save and Wait, and after Writes when something has changed.
type Ready struct {
	// Read are the paths of the cgroups on whose usage the decision depends.
	Read []string
	// Save is all that is allocated, if it is to be saved. What is not saved is not enforced. Others may
	// call Ready meanwhile, and decide without it.
	Save api.Allocations
	// Wait is set while what is allocated to one of the pods that were asked about is being saved.
	Wait bool
	// Writes is the decision, to be carried out by [Decision.Execute]. It is nil while one of the others
	// is set.
	Writes *Decision
}

// Changes reports whether settings of a cgroup may be written.
func (r *Ready) Changes(group string) bool { return r.Writes != nil && r.Writes.Concerns(group) }

// Ready returns what is to be done next. If it is asked about a container that is to be created, or
// updated, that gets what is allocated to its pod, and its settings are a part of the next status.
func (c *Control) Ready(now time.Time, asked ...nodeplan.Ref) (r Ready) {
	if !c.prepared {
		c.prepared = true
		r.Read = c.prepare(now)
	}
	r.Save = c.allocate.Save()
	r.Wait = r.Save == nil && slices.ContainsFunc(asked, func(ref nodeplan.Ref) bool {
		s := c.Pods.Get(ref.Pod)
		return s != nil && c.allocate.IsUnsaved(s.Object.UID)
	})
	if len(r.Read) == 0 && r.Save == nil && !r.Wait {
		r.Writes, c.prepared, c.asked = new(c.decide(now)), false, asked
	}
	return r
}

// prepare lets the controllers prepare a decision, and returns the cgroups whose usage they need.
func (c *Control) prepare(now time.Time) (read []string) {
	if c.config.Restore || c.hold() != "" {
		return nil
	}
	c.begin(now)
	for _, k := range c.controllers {
		read = append(read, k.Prepare(&c.round)...)
	}
	if c.config.Observe && c.allocate.Save() != nil { // it is not enforced
		c.allocate.Saved(&c.round, nil)
	}
	return read
}
