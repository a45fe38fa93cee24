// Package allocate gives CPUs to the pods of a node whose agent is the allocator: pods that any
// scheduler has bound. It decides once for each pod, from the same books as Pinfold's scheduler,
// and remembers the decision until the pod has ended.
//
//	c := allocate.New(node, true, allocate.RepackNone)
//	c.Restore(saved)                     // of an earlier agent
//	if c.Decide(round, pods, ...) {      // before a plan is made
//		c.Saved(pods, save(c.Given()))   // before the plan is carried out
//	}
//
// Requests guarantee that the CPUs are there: each container requests at least the CPUs that it
// asks for, and no scheduler binds more requests to a node than it has. A pod gives its CPUs up
// when its requests do not cover them any more. It gets CPUs when the kubelet has made its cgroup,
// and so has admitted it. What it gets is the best at that moment; if that is not what it asks for,
// it gets none and is told why.
//
// A resize counts when the kubelet has carried it out: until then schedulers count the larger of
// both requests.
//
// The first decision recovers what was not saved: CPUs that a pod's containers run on are its own.
// The kernel shows them, and no pod can write there. So a node whose pods got their CPUs from the
// scheduler can change its allocator while they run.
package allocate

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/agent/control/pods"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/kube/api"
)

// Controller remembers what it has given.
type Controller struct {
	name      string // of the node
	repack    Repack
	given     *api.Given
	recovered bool // what was not saved
	changed   bool // since the last call of Saved
	// added is what pods had before the last decision, of those to which it gave something.
	added  map[types.UID]api.Allocation
	moved  *Move     // by the last decision, or nil
	looked time.Time // for a pod to move, or started
	// lapsed are the pods that have lost the CPUs of their claims, or never get any, and losses say why
	// others have lost CPUs. damaged says what is wrong with what was saved.
	lapsed  map[types.UID]lapse
	losses  map[types.UID]string
	damaged string
	refused refusals
}

// lapse is why a pod has lost the CPUs of claims, or of none never gets any.
type lapse struct {
	why    error
	claims []api.ClaimRef
}

// refusals are the pods that got nothing from books that decide like these. Without them, each
// decision would search again for all of them.
type refusals struct {
	books *ledger.Books
	pods  map[*corev1.Pod]error
}

// New returns the controller of a node. If it does not allocate, pods only keep what they have.
func New(node string, allocates bool, repack Repack) *Controller {
	return &Controller{name: node, repack: cmp.Or(repack, RepackNone), lapsed: map[types.UID]lapse{}, losses: map[types.UID]string{},
		given: &api.Given{Allocates: allocates, Pods: map[types.UID]api.Allocation{}}}
}

// Given returns what is given. It changes with each decision.
func (c *Controller) Given() *api.Given { return c.given }

// Moved returns what the last decision has moved, or nil.
func (c *Controller) Moved() *Move { return c.moved }

// Saved records that what is given is saved. If err is not nil, it takes back what the last
// decision has given, because after a crash the next agent would give it to others.
func (c *Controller) Saved(p *pods.Pods, err error) {
	for i := range p.All {
		uid := p.All[i].Object.UID
		before, added := c.added[uid]
		if err == nil || !added {
			continue
		}
		keeps := len(before.Containers) > 0
		if c.given.Pods[uid] = before; !keeps {
			delete(c.given.Pods, uid)
		}
		if p.Reread(i); c.moved == nil {
			p.All[i].Problem = notGivenError{error: fmt.Errorf("the agent cannot save what it gives: %w", err), keeps: keeps}
		}
	}
	if c.changed, c.added = err != nil, nil; err != nil {
		c.moved = nil
	}
}

// notGivenError is why a pod does not get the CPUs that it asks for.
type notGivenError struct {
	error
	claim bool // a resource claim asks, so the pod must not run without them
	keeps bool // other CPUs of its own
}

func (e notGivenError) Error() string {
	if e.keeps {
		return "it keeps the CPUs that it has, and not as many as it asks for: " + e.error.Error()
	}
	return "it gets no CPUs of its own: " + e.error.Error()
}

// NotGiven reports whether a pod's problem is that it was not given what it asks for, and whether its
// containers must not run: those without CPUs where the agent refuses them, and those of claims.
func NotGiven(problem error, refuses bool) (is, refused bool) {
	var e notGivenError
	is = errors.As(problem, &e)
	return is, is && !e.keeps && (refuses || e.claim)
}

// Refuse tells the pods that ask and have none that this node gives no CPUs.
func (c *Controller) Refuse(p *pods.Pods, why error) {
	for i := range p.All {
		s := &p.All[i]
		if asks, _ := api.Asks(s.Object); c.given.Allocates && asks && !s.Departed && len(s.Plan.Claim.Containers) == 0 {
			s.Problem = notGivenError{error: why}
		}
	}
}

// Decide gives CPUs to the pods that ask and have none, first to those that were bound first. If it
// gives none, it may move a running pod. It forgets pods that have ended, are gone, or do not ask
// any more. It reports whether there is something to save.
func (c *Controller) Decide(r *groups.Round, p *pods.Pods, index *placement.Index, config ledger.Config) (changed bool) {
	c.added, c.moved = nil, nil
	n := node{r, c.name, p, index, config, nil}
	if !c.recovered {
		c.recover(n)
		c.recovered, c.looked = true, r.Now
	}
	if waiting := c.review(n); len(waiting) > 0 {
		n.books = c.books(r, p, index, config)
		c.giveAll(n, waiting)
	}
	if len(c.added) == 0 {
		c.moveOne(n)
	}
	return c.changed
}

// books returns those of all pods, and of pods that run although they are not listed. A pod that the
// kubelet has not admitted does not count: it may name this node and request any number of CPUs.
func (c *Controller) books(r *groups.Round, p *pods.Pods, index *placement.Index, config ledger.Config) *ledger.Books {
	listed := map[types.UID]bool{}
	claims := make([]ledger.Claim, 0, len(p.All))
	for i := range p.All {
		s := &p.All[i]
		listed[s.Object.UID] = true
		if len(s.Plan.Claim.Containers) > 0 || r.Exists(r.Pod[s.Plan.ID]) {
			claims = append(claims, s.Plan.Claim)
		}
	}
	for uid, a := range c.given.Pods {
		if !listed[uid] {
			claims = append(claims, a.Claim(uid))
		}
	}
	return ledger.New(index, config, claims...)
}

// review forgets what pods give up, and returns the places of the pods that are to get CPUs. Those
// that were resized have some, and keep them until they get what they ask for.
func (c *Controller) review(n node) (waiting []int) {
	r, p, index, config := n.Round, n.pods, n.index, n.config
	lost := map[ledger.PodID]bool{}
	if len(c.given.Pods) > 0 {
		for _, conflict := range c.books(r, p, index, config).Conflicts() {
			lost[conflict.ID] = true
		}
	}
	before, claimants := len(c.given.Pods), c.claimants(p)
	kept := make(map[types.UID]api.Allocation, before)
	for _, i := range byRank(p) {
		s := &p.All[i]
		uid := s.Object.UID
		a, has := c.given.Pods[uid]
		if is, _ := NotGiven(s.Problem, false); is && has { // decided again
			p.Reread(i)
		}
		delete(c.given.Pods, uid)
		asks, err := api.Asks(s.Object)
		lives := !s.Departed && !api.HasEnded(s.Object)
		holds := lives && has && a.Concerns(s.Object) && c.lapsed[uid].why == nil
		if holds {
			invalid := c.invalid(n, s, a, lost[s.Plan.Claim.ID])
			resized := c.given.Allocates && errors.Is(invalid, errResized)
			if resized {
				waiting = append(waiting, i)
			}
			if resized || invalid == nil {
				kept[uid] = a
				continue
			}
			if s.Problem != nil || lost[s.Plan.Claim.ID] || len(a.Claims) > 0 {
				c.lose(s, a, invalid)
			}
		}
		if !lives || !has && !c.given.Allocates {
			continue
		}
		if p.Reread(i); !c.given.Allocates {
			continue
		}
		if other := belongsToOther(s.Object, claimants); other != nil && c.lapsed[uid].why == nil {
			c.lapsed[uid] = lapse{why: other} // for good: the kubelet does not ask for it, not even later
		}
		if refused := c.lapsed[uid].why; refused != nil {
			s.Problem = notGivenError{error: refused, claim: true}
		} else if err != nil {
			s.Problem = notGivenError{error: err}
		} else if asks && r.Exists(r.Pod[s.Plan.ID]) {
			waiting = append(waiting, i)
		}
	}
	for uid, a := range c.given.Pods { // a list may be old
		if r.Runs(ledger.PodID(uid)) {
			kept[uid] = a
		}
	}
	c.changed = c.changed || len(kept) < before
	c.given.Pods = kept
	c.forget(p)
	return waiting
}

// forget forgets what pods that have ended have lost.
func (c *Controller) forget(p *pods.Pods) {
	ended := func(uid types.UID) bool {
		return !slices.ContainsFunc(p.All, func(s pods.Pod) bool { return s.Object.UID == uid && !s.Departed && !api.HasEnded(s.Object) })
	}
	maps.DeleteFunc(c.lapsed, func(uid types.UID, _ lapse) bool { return ended(uid) })
	maps.DeleteFunc(c.losses, func(uid types.UID, _ string) bool { return ended(uid) })
}

// byRank returns the places of the pods, those first that keep their CPUs.
func byRank(p *pods.Pods) []int {
	all := make([]int, len(p.All))
	for i := range all {
		all[i] = i
	}
	slices.SortFunc(all, func(x, y int) int {
		a, b := &p.All[x].Plan.Claim, &p.All[y].Plan.Claim
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// invalid returns why a pod must not keep what it has, or nil.
func (c *Controller) invalid(n node, s *pods.Pod, a api.Allocation, lost bool) error {
	switch {
	case s.Problem != nil:
		return s.Problem
	case lost:
		return errors.New("another pod has the CPUs")
	}
	held, matches := a.Holds(s.Object), a.Matches(s.Object)
	switch {
	case s.MayResize():
		return held
	case (matches != nil || !n.withheld(s, a.CPUs()).IsEmpty()) && c.isResized(s, a):
		return errResized
	}
	return cmp.Or(held, matches)
}

// errResized is why a pod does not keep exactly what it has: it was resized, or an administrator has
// withheld CPUs.
var errResized = errors.New("it was resized")

// node is what decisions depend on.
type node struct {
	*groups.Round
	name   string
	pods   *pods.Pods
	index  *placement.Index
	config ledger.Config
	books  *ledger.Books
}

// allowed returns the CPUs of a set that a pod of this QoS class may use.
func (n node) allowed(s *pods.Pod, cpus cpuset.Set) cpuset.Set {
	if of, narrow := n.Allowed[s.Plan.Tier]; narrow {
		return cpus.Intersection(of)
	}
	return cpus
}

// withheld returns the CPUs of a set that are online and that a pod of this QoS class may not use.
func (n node) withheld(s *pods.Pod, cpus cpuset.Set) cpuset.Set {
	online := cpus.Intersection(n.Online)
	return online.Difference(n.allowed(s, online)).Union(cpus.Intersection(n.Withheld))
}

// giveAll gives CPUs to pods, in this order. Who got nothing before gets nothing from less.
func (c *Controller) giveAll(n node, waiting []int) {
	last := c.refused
	if last.books == nil || !n.books.DecidesAs(last.books) {
		last.pods = nil
	}
	c.refused = refusals{n.books, map[*corev1.Pod]error{}}
	for _, at := range waiting {
		s := &n.pods.All[at]
		err, known := last.pods[s.Object]
		if !known {
			err = c.give(n, at)
		}
		if err != nil {
			s.Problem, c.refused.pods[s.Object] = err, err
		}
	}
}

// give gives CPUs to one pod.
func (c *Controller) give(n node, at int) error {
	s := &n.pods.All[at]
	intent, err := api.Parse(s.Object)
	if err == nil {
		err = api.Covers(&intent.Ask)
	}
	if err == nil && intent.Ask.Policy != placement.StaticBurst {
		err = c.aboveCeiling(n.pods, s.Object, intent.Ask.CPUs())
	}
	if err != nil {
		return notGivenError{error: err}
	}
	defer func() { n.books.Add(s.Plan.Claim) }()
	if _, has := c.given.Pods[s.Object.UID]; has {
		return c.resize(n, at, intent.Ask)
	}
	n.books.Add(ledger.Claim{ID: s.Plan.Claim.ID}) // it counts as a request until it has its CPUs
	intent.Ask.Within = n.allowed(s, n.Online)
	decision, err := n.books.Decide(intent.Ask)
	if err == nil {
		err = c.put(n, at, api.NewAllocation(c.name, n.books.Machine(), decision))
	}
	if err != nil {
		return notGivenError{error: err}
	}
	return nil
}

// maxText bounds an allocation in bytes, and laterText one that is given while pods have many: all of
// a node are published in one object, of which others read 1 MiB. That is enough for 750 pods.
const (
	maxText, laterText = 3 << 10, 512
	many               = 250
)

// put gives an allocation to a pod.
func (c *Controller) put(n node, at int, a api.Allocation) error {
	s := &n.pods.All[at]
	a.Time = n.Now.UTC()
	most := maxText
	if len(c.given.Pods) >= many {
		most = laterText
	}
	if size := len(a.Encode()); size > most {
		return fmt.Errorf("its allocation has %d bytes, and the agent publishes %d: give CPUs to fewer containers, or shorten their names", size, most)
	}
	if err := a.Matches(s.Object); err != nil {
		return err
	}
	if c.added == nil {
		c.added = map[types.UID]api.Allocation{}
	}
	c.added[s.Object.UID] = c.given.Pods[s.Object.UID]
	c.given.Pods[s.Object.UID] = a
	n.pods.Reread(at)
	c.changed = true
	return nil
}
