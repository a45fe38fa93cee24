package allocate

import (
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/agent/control/pods"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/kube/api"
)

// What is allocated is in force, and published, when it is saved. The books count it at once, and what a
// pod had before is its own until then.

// Save returns all that is allocated, if that has changed and nothing is being saved, or nil.
func (c *Controller) Save() api.Allocations {
	if !c.changed || c.saving != nil || c.failed {
		return nil
	}
	c.changed, c.saving = false, maps.Clone(c.allocated)
	return maps.Clone(c.allocated)
}

// Saved records that what Save has returned is saved. If err is not nil, it takes back all that is
// not, because after a crash the next agent would allocate it to others.
func (c *Controller) Saved(p *pods.Pods, err error) {
	saved := c.saving
	if c.saving = nil; err == nil {
		for uid := range c.unsaved {
			switch now, has := saved[uid]; {
			case has && now.Encode() == c.allocated[uid].Encode():
				delete(c.unsaved, uid)
			case has:
				c.unsaved[uid] = now
			}
		}
		return
	}
	lost, kept := maps.Clone(c.allocated), c.InForce()
	clear(c.allocated) // the pods have the same map
	maps.Copy(c.allocated, kept)
	for i := range p.All {
		uid := p.All[i].Object.UID
		if !c.IsUnsaved(uid) {
			continue
		}
		if p.Reread(i); c.moved == nil && len(lost[uid].Claims) == 0 { // about claims the kubelet is told
			p.All[i].Problem = notGivenError{error: fmt.Errorf("the agent cannot save what it gives: %w", err), keeps: len(kept[uid].Containers) > 0}
		}
	}
	clear(c.unsaved)
	c.changed, c.failed, c.moved = true, true, nil
}

// IsUnsaved reports whether what is allocated to a pod is not saved, and therefore not in force.
func (c *Controller) IsUnsaved(pod types.UID) bool {
	_, unsaved := c.unsaved[pod]
	return unsaved
}

// InForce returns what is allocated and saved.
func (c *Controller) InForce() api.Allocations {
	all := maps.Clone(c.allocated)
	maps.Copy(all, c.unsaved)
	maps.DeleteFunc(all, func(_ types.UID, a api.Allocation) bool { return len(a.Containers) == 0 })
	return all
}

// Input makes a plan with what is saved.
func (c *Controller) Input(r *groups.Round, s *nodeplan.State) {
	for i := range s.Pods {
		pod := r.Pods[i].Object
		if before, unsaved := c.unsaved[pod.UID]; unsaved && !r.Pods[i].Departed {
			had := api.Allocations{pod.UID: before}
			if len(before.Containers) == 0 {
				had = nil
			}
			id := s.Pods[i].Claim.ID
			s.Pods[i].Claim, _, _ = had.Claim(pod, s.Index.Machine())
			s.Pods[i].Claim.ID = id
		}
	}
}

// takeBack takes from a pod what it has, at once.
func (c *Controller) takeBack(uid types.UID) {
	delete(c.allocated, uid)
	delete(c.unsaved, uid)
	delete(c.saving, uid)
}
