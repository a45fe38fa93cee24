// Package allocate gives CPUs to the pods of a node whose agent is the allocator: pods that any
// scheduler has bound. It decides once for each pod, from the same books as Pinfold's scheduler, and
// remembers the decision until the pod has ended.
//
//	c := allocate.New(node, true)
//	c.Restore(saved)                     // of an earlier agent
//	if c.Decide(round, pods, ...) {      // before a plan is made
//		c.Saved(pods, save(c.Given()))   // before the plan is carried out
//	}
//
// Requests guarantee that the CPUs are there: each container requests at least the CPUs that it asks
// for, and no scheduler binds more requests to a node than it has. So a pod waits for nothing. It
// gets what is best at that moment, and if that is not what it asks for, runs in the shared CPUs and
// is told why.
//
// If nothing was saved, the CPUs that a pod's containers run on are its own again: the kernel shows
// them, and no pod can write there. So a node whose pods got their CPUs from the scheduler can change
// its allocator while they run.
package allocate

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/agent/control/pods"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
)

// Controller remembers what it has given.
type Controller struct {
	name    string // of the node
	given   *api.Given
	changed bool // since the last call of Saved
	added   []int
}

// New returns the controller of a node. If it does not allocate, pods only keep what they have.
func New(node string, allocates bool) *Controller {
	return &Controller{name: node, given: &api.Given{Allocates: allocates, Pods: map[types.UID]api.Allocation{}}}
}

// Given returns what is given. It changes with each decision.
func (c *Controller) Given() *api.Given { return c.given }

// Restore sets what an earlier agent has given.
func (c *Controller) Restore(saved map[types.UID]api.Allocation) { maps.Copy(c.given.Pods, saved) }

// Saved says that what is given is saved. With an error it takes back what the last decision has
// given, because after a crash the next agent would give it to others.
func (c *Controller) Saved(p *pods.Pods, err error) {
	for _, at := range c.added {
		if err != nil {
			delete(c.given.Pods, p.All[at].Object.UID)
			p.Reread(at)
			p.All[at].Problem = notGivenError{fmt.Errorf("the agent cannot save what it gives: %w", err)}
		}
	}
	c.changed, c.added = err != nil, nil
}

// notGivenError is why a pod that asks gets no CPUs.
type notGivenError struct{ error }

func (e notGivenError) Error() string { return "it gets no CPUs of its own: " + e.error.Error() }

// NotGiven reports whether a pod's problem is that it was given no CPUs.
func NotGiven(problem error) bool { return errors.As(problem, &notGivenError{}) }

// Decide gives CPUs to the pods that ask and have none, first to those that were bound first. It
// forgets pods that have ended, are gone, or do not ask any more. It reports whether there is
// something to save.
func (c *Controller) Decide(r *groups.Round, p *pods.Pods, index *placement.Index, config ledger.Config) (changed bool) {
	c.added = nil
	waiting := c.waiting(p)
	if len(waiting) == 0 {
		return c.changed
	}
	claims := make([]ledger.Claim, len(p.All))
	for i := range p.All {
		claims[i] = p.All[i].Plan.Claim
	}
	n := node{index.Machine(), config.ReservedCPUs, ledger.New(index, config, claims...)}
	for _, at := range waiting {
		c.give(r, p, at, n)
	}
	return c.changed
}

// node is what decisions depend on.
type node struct {
	machine  *topology.Machine
	reserved cpuset.Set
	books    *ledger.Books
}

// waiting returns the places of the pods that are to get CPUs, and forgets what pods give up.
func (c *Controller) waiting(p *pods.Pods) (waiting []int) {
	kept := make(map[types.UID]api.Allocation, len(c.given.Pods))
	var others []int
	for i := range p.All {
		s := &p.All[i]
		a, has := c.given.Pods[s.Object.UID]
		asks := !s.Departed && !api.HasEnded(s.Object) && api.Asks(s.Object)
		if has && asks && s.Problem == nil {
			kept[s.Object.UID] = a
			continue
		}
		if has && !s.Departed {
			others = append(others, i)
		}
		if asks && c.given.Allocates { // also if its limits or the machine's CPUs have changed
			waiting = append(waiting, i)
		}
	}
	c.changed = c.changed || len(kept) < len(c.given.Pods)
	c.given.Pods = kept
	for _, i := range slices.Concat(others, waiting) {
		p.Reread(i)
	}
	slices.SortFunc(waiting, func(x, y int) int {
		a, b := &p.All[x].Plan.Claim, &p.All[y].Plan.Claim
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.ID, b.ID))
	})
	return waiting
}

// give gives CPUs to one pod, or says why not.
func (c *Controller) give(r *groups.Round, p *pods.Pods, at int, n node) {
	object := p.All[at].Object
	decision, err := c.choose(&p.All[at], n.books)
	if err != nil {
		p.All[at].Problem = notGivenError{err}
		return
	}
	best := api.NewAllocation(c.name, n.machine, decision)
	best.Time = r.Now.UTC()
	for _, a := range []api.Allocation{n.held(r, &p.All[at], best), best} {
		c.given.Pods[object.UID] = a
		if p.Reread(at); p.All[at].Problem == nil {
			break
		}
	}
	n.books.Add(p.All[at].Plan.Claim)
	c.added, c.changed = append(c.added, at), true
}

func (c *Controller) choose(s *pods.Pod, books *ledger.Books) (ledger.Decision, error) {
	intent, err := api.Parse(s.Object)
	if err == nil {
		err = api.Covers(&intent.Ask)
	}
	if err != nil {
		return ledger.Decision{}, err
	}
	books.Add(ledger.Claim{ID: s.Plan.Claim.ID}) // it counts as a request until it has its CPUs
	decision, err := books.Decide(intent.Ask)
	if err != nil {
		books.Add(s.Plan.Claim)
	}
	return decision, err
}

// held returns the allocation with the CPUs that the containers run on, if each runs on as many as it
// is to get, and all are free. Otherwise it returns the allocation.
func (n node) held(r *groups.Round, s *pods.Pod, best api.Allocation) api.Allocation {
	free := n.books.Shared().Difference(n.reserved)
	kept := best
	kept.Containers = slices.Clone(best.Containers)
	for i := range kept.Containers {
		part := &kept.Containers[i]
		path := r.Container[nodeplan.Ref{Pod: s.Plan.ID, Container: part.Name}]
		var cpus cpuset.Set
		if r.Exists(path) {
			cpus = r.Held(path)
		}
		if best.Policy != placement.Static || cpus.Len() != part.CPUs.Len() || !cpus.IsSubsetOf(free) {
			return best
		}
		part.CPUs, part.NUMANodes = cpus, n.machine.NUMANodesOf(cpus)
	}
	return kept
}
