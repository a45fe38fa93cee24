package control

import (
	"errors"
	"time"

	"pinfold.dev/pinfold/kube/api"
)

// Ready is what is to be done next. Another one follows: after Read and Save when these are done, and
// after Writes when something has changed.
type Ready struct {
	// Read are the paths of the cgroups on whose usage the decision depends; see [Control.SetGroupUsage].
	Read []string
	// Save is all that is allocated, if it is to be saved; see [Control.Saved]. What is not saved is not enforced.
	Save api.Allocations
	// Writes is the decision, to be carried out by [Decision.Execute]; see [Control.Advance]. It is nil
	// while there is something to read or to save.
	Writes *Decision
}

// Ready returns what is to be done next.
func (c *Control) Ready(now time.Time) (r Ready) {
	if !c.prepared {
		c.prepared = true
		r.Read, r.Save = c.quota.Waiting(c.All), c.allocateAll(now)
	}
	if len(r.Read) == 0 && r.Save == nil {
		r.Writes, c.prepared = new(c.decide(now)), false
	}
	return r
}

// allocateAll allocates CPUs to the pods that ask, and returns what is to be saved, or nil.
func (c *Control) allocateAll(now time.Time) api.Allocations {
	if err := c.cannotAllocate(now); err != nil {
		if !errors.Is(err, ErrNotYet) {
			c.allocate.Refuse(c.Pods, err)
		}
		return nil
	}
	c.allocate.Allocate(&c.round, c.Pods, c.node.index, c.books())
	all := c.allocate.Save()
	if c.config.Observe { // it is not enforced
		c.allocate.Saved(c.Pods, nil)
		return nil
	}
	return all
}
