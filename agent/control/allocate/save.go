package allocate

import (
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/kube/api"
)

// What is allocated is in force, and published, when it is saved. The books count it at once, and what a
// pod had before is its own until then.

// All allocations of a node are published in one object, of which others read allText bytes. mostPods, more
// than a kubelet runs, have room for smallText each whatever the others have.
const allText, smallText, mostPods = 1 << 20, 512, 750

// fits returns an error if a pod cannot be published.
func (c *Controller) fits(pod types.UID, size int) error {
	if size <= smallText {
		return nil
	}
	sum, left := size, mostPods
	for uid, a := range c.allocated {
		if uid != pod {
			sum, left = sum+len(a.Encode()), left-1
		}
	}
	if most := min(api.MaxAllocation, max(smallText, allText-(sum-size)-smallText*max(0, left))); size > most {
		return fmt.Errorf("its allocation has %d bytes, and the agent publishes %d: give CPUs to fewer containers, or shorten their names", size, most)
	}
	return nil
}

// put sets the allocation of a pod.
func (c *Controller) put(n node, at int, a api.Allocation) error {
	s := &n.Pods[at]
	a.Time = n.Now.UTC()
	if err := c.fits(s.Object.UID, len(a.Encode())); err != nil {
		return err
	}
	if err := a.Matches(s.Object); err != nil && !s.MayResize() {
		return err
	}
	if _, unsaved := c.unsaved[s.Object.UID]; !unsaved {
		c.unsaved[s.Object.UID] = c.allocated[s.Object.UID]
	}
	c.allocated[s.Object.UID] = a
	c.read(n.Round, s)
	c.changed = true
	return nil
}

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
func (c *Controller) Saved(r *groups.Round, err error) {
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
	lost := c.allocated
	c.allocated = c.InForce()
	for i := range r.Pods {
		s := &r.Pods[i]
		uid := s.Object.UID
		if !c.IsUnsaved(uid) {
			continue
		}
		if c.read(r, s); c.moved == nil && len(lost[uid].Claims) == 0 { // about claims the kubelet is told
			c.problems[uid] = notGivenError{error: fmt.Errorf("the agent cannot save what it gives: %w", err), keeps: len(c.allocated[uid].Containers) > 0}
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

// Claims returns what pods have of what is saved. Those without CPUs have no claim.
func (c *Controller) Claims(r *groups.Round) map[types.UID]ledger.Claim {
	claims := map[types.UID]ledger.Claim{}
	for i := range r.Pods {
		pod := r.Pods[i].Object
		claim := c.claims[pod.UID]
		if before, unsaved := c.unsaved[pod.UID]; unsaved && !r.Pods[i].Departed {
			claim, _, _ = api.Allocations{pod.UID: before}.Claim(pod, r.Index.Machine())
		}
		if len(claim.Containers) > 0 {
			claims[pod.UID] = claim
		}
	}
	return claims
}

// Input adds what pods have, also those that the list lacks.
func (c *Controller) Input(r *groups.Round, s *nodeplan.State) {
	r.Unlisted = map[ledger.PodID]cpuset.Set{}
	for uid, a := range c.InForce() {
		if _, listed := c.claims[uid]; !listed {
			s.Unlisted = append(s.Unlisted, a.Claim(uid))
			r.Unlisted[ledger.PodID(uid)] = a.CPUs()
		}
	}
	for i := range s.Pods {
		if claim, has := r.Claims[r.Pods[i].Object.UID]; has {
			s.Pods[i].Claim = claim
		}
	}
}

// takeBack takes from a pod what it has, at once.
func (c *Controller) takeBack(uid types.UID) {
	delete(c.allocated, uid)
	delete(c.unsaved, uid)
	delete(c.saving, uid)
}
