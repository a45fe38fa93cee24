// Package allocate allocates CPUs to the pods of a node, whichever scheduler has bound them. It is the
// only owner of that decision. It decides once for each pod, as Pinfold's scheduler predicts, and
// remembers the decision until the pod has ended, does not ask any more or is resized.
//
//	c := allocate.New(node, allocate.RepackNone, ceilings)
//	c.Resume(saved, nil)     // of an earlier agent
//	c.Prepare(round)         // before a plan is made
//	if all := c.Save(); all != nil {
//		c.Saved(round, save(all))
//	}
//	round.Claims = c.Claims(round) // what pods have
//
// Pinfold's scheduler binds a pod where the CPUs are. Under every other scheduler, requests guarantee
// them: no scheduler binds more requests to a node than it has. A pod that requests less than it asks
// for borrows CPUs then, and loses them when others request them. A pod gets CPUs when the kubelet has
// made its cgroup, and so has admitted it. What it gets is the best at that moment; if that is not what
// it asks for, it gets none and is told why.
//
// A resize counts when the kubelet has carried it out: until then schedulers count the larger of
// both requests.
//
// The first decision recovers what was not saved: CPUs that a pod's containers run on are its own.
// The kernel shows them, and no pod can write there.
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
	"pinfold.dev/pinfold/core/qos"
	"pinfold.dev/pinfold/kube/api"
)

// Controller remembers what it has allocated.
type Controller struct {
	groups.Idle
	name      string // of the node
	repack    Repack
	ceilings  api.Ceilings
	allocated api.Allocations
	// claims are what the books count of pods, and problems why they do not have what they ask for, both
	// of the pods of the last decision.
	claims    map[types.UID]ledger.Claim
	problems  map[types.UID]error
	recovered bool // what was not saved
	changed   bool // since the last call of Save
	// unsaved is what pods have while what is allocated to them is not saved, and saving is what Save has
	// returned, without pods that have given up what they had.
	unsaved, saving api.Allocations
	// failed is set after it could not be saved, until the next decision.
	failed bool
	moved  *Move     // of which users were not told, or nil
	looked time.Time // for a pod to move, or started
	// lapsed are the pods that have lost the CPUs of their claims, or never get any, and losses say why
	// others have lost CPUs, until they have or ask for none any more. damaged says what is wrong with what was saved.
	lapsed map[types.UID]lapse
	losses map[types.UID]loss
	// unprepared are why the pods that the kubelet is starting got no CPUs for their claims so far.
	unprepared map[types.UID]error
	damaged    string
	refused    refusals
}

// lapse is why a pod has lost the CPUs of claims, or of none never gets any.
type lapse struct {
	why    error
	claims []api.ClaimRef
}

// refusals are the pods that got nothing from books that decide like these, while tiers might use
// these CPUs. Without them, each decision would search again for all of them.
type refusals struct {
	books   *ledger.Books
	allowed map[qos.Tier]cpuset.Set
	pods    map[*corev1.Pod]error
}

// New returns the controller of a node.
func New(node string, repack Repack, ceilings api.Ceilings) *Controller {
	return &Controller{name: node, repack: cmp.Or(repack, RepackNone), ceilings: ceilings, lapsed: map[types.UID]lapse{},
		losses: map[types.UID]loss{}, unprepared: map[types.UID]error{}, allocated: api.Allocations{}, unsaved: api.Allocations{}, claims: map[types.UID]ledger.Claim{},
		problems: map[types.UID]error{}}
}

// Moved returns what was moved and is saved, until users are told, or nil.
func (c *Controller) Moved() *Move {
	if c.moved == nil || c.IsUnsaved(c.moved.Pod.UID) {
		return nil
	}
	return c.moved
}

// Notices adds why pods do not have what they ask for, have lost CPUs, or were moved.
func (c *Controller) Notices(r *groups.Round, n *groups.Notices) {
	if c.damaged != "" {
		n.Note(nil, groups.DamagedState, "%s", c.damaged)
	}
	for i := range r.Pods {
		s := &r.Pods[i]
		if m := c.Moved(); m != nil && m.Pod.UID == s.Object.UID {
			n.Tell(s, groups.Moved, "%s", m.Text)
			c.moved = nil
		}
		problem := c.problems[s.Object.UID]
		if why := c.unprepared[s.Object.UID]; why != nil && problem == nil {
			problem = notGivenError{error: why}
		}
		if problem != nil {
			n.Problem(s, groups.NotGiven, "pod %s: %v", s.Name(), problem)
		}
		c.tellLoss(s, n)
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

// Problem returns why a pod does not have what it asks for, or nil.
func (c *Controller) Problem(pod types.UID) error { return c.problems[pod] }

// Refused returns why the containers of a pod must not run: those without CPUs where the agent refuses
// them, and those of claims. It returns nil if they may.
func (c *Controller) Refused(pod types.UID, refuses bool) error {
	var e notGivenError
	if problem := c.problems[pod]; errors.As(problem, &e) && !e.keeps && (refuses || e.claim) {
		return problem
	}
	return nil
}

// Prepare allocates CPUs to the pods that ask and have none, first to those that were bound first. If it
// allocates none, it may move a running pod. It forgets pods that have ended, are gone, or do not ask
// any more. On a node that binds no CPUs it tells the pods that ask.
func (c *Controller) Prepare(r *groups.Round) (read []string) {
	c.failed = false
	if c.readAll(r); !r.Binds {
		c.refuse(r)
		return nil
	}
	n := node{r, c.name, nil}
	if !c.recovered {
		c.recover(n)
		c.recovered, c.looked = true, r.Now
		c.changed = c.changed || c.damaged != "" // in place of what cannot be read
	}
	waiting := c.review(r)
	n.books = c.books(r, c.decisions(r, waiting))
	waiting = slices.DeleteFunc(waiting, func(at int) bool { // static pods, whose mirror pods are others now
		s := &r.Pods[at]
		return s.Plan.ID != ledger.PodID(s.Object.UID) && len(c.allocated[s.Object.UID].Containers) == 0 && c.adopt(n, at)
	})
	c.settle(n)
	if len(waiting) == 0 || !c.giveAll(n, waiting) {
		c.moveOne(n)
	}
	return nil
}

// readAll brings up to date what the books count of all pods, and forgets their problems.
func (c *Controller) readAll(r *groups.Round) {
	clear(c.claims)
	clear(c.problems)
	for i := range r.Pods {
		c.read(r, &r.Pods[i])
	}
}

// read does the same for one pod.
func (c *Controller) read(r *groups.Round, s *pods.Pod) {
	uid := s.Object.UID
	c.claims[uid] = s.Plan.Claim
	delete(c.problems, uid)
	if _, has := c.allocated[uid]; !has || s.Departed {
		return
	}
	var err error
	if c.claims[uid], _, err = c.allocated.Claim(s.Object, r.Index.Machine()); err != nil {
		c.problems[uid] = err
	}
}

// refuse tells the pods that ask and have none that this node allocates no CPUs.
func (c *Controller) refuse(r *groups.Round) {
	for i := range r.Pods {
		s := &r.Pods[i]
		if asks, _ := api.Asks(s.Object); asks && !s.Departed && len(c.claims[s.Object.UID].Containers) == 0 {
			c.problems[s.Object.UID] = notGivenError{error: errors.New(r.BindingOff)}
		}
	}
}

// books returns those of all pods, and of pods that run unlisted, for some decisions.
func (c *Controller) books(r *groups.Round, decisions int) *ledger.Books {
	claims := make([]ledger.Claim, 0, len(r.Pods))
	for i := range r.Pods {
		s := &r.Pods[i]
		if claim := c.claims[s.Object.UID]; r.Counts(s.Plan.ID, &claim) {
			claims = append(claims, claim)
		}
	}
	for uid, a := range c.allocated {
		if _, listed := c.claims[uid]; !listed {
			claims = append(claims, a.Claim(uid))
		}
	}
	config := r.Books
	config.Decisions = decisions
	return ledger.New(r.Index, config, claims...)
}

// review forgets what pods give up, and returns the places of the pods that are to get CPUs. Those
// that were resized have some, and keep them until they get what they ask for.
func (c *Controller) review(r *groups.Round) (waiting []int) {
	lost := map[ledger.PodID]error{}
	if len(c.allocated) > 0 {
		for _, conflict := range c.books(r, 0).Conflicts() {
			lost[conflict.ID] = errors.New("another pod has the CPUs")
			if reserved := c.allocated[types.UID(conflict.ID)].CPUs().Intersection(r.Books.ReservedCPUs); !reserved.IsEmpty() {
				lost[conflict.ID] = fmt.Errorf("CPUs %s are reserved for the system now", reserved)
			}
		}
	}
	before, claimants := len(c.allocated), c.claimants(r)
	kept := make(map[types.UID]api.Allocation, before)
	for _, i := range c.byRank(r) {
		s := &r.Pods[i]
		uid := s.Object.UID
		a, has := c.allocated[uid]
		delete(c.allocated, uid)
		asks, err := api.Asks(s.Object)
		lives := !s.Departed && !api.HasEnded(s.Object)
		holds := lives && has && a.Concerns(s.Object) && c.lapsed[uid].why == nil
		if holds {
			conflict := lost[c.claims[uid].ID]
			invalid := c.invalid(r, s, a, conflict)
			resized := errors.Is(invalid, errResized)
			if resized {
				waiting = append(waiting, i)
			}
			if resized || invalid == nil {
				kept[uid] = a
				continue
			}
			if c.problems[uid] != nil || conflict != nil || len(a.Claims) > 0 {
				c.lose(s, a, invalid)
			}
		}
		if !lives {
			continue
		}
		c.read(r, s)
		if other := belongsToOther(s.Object, claimants); other != nil && c.lapsed[uid].why == nil {
			c.lapsed[uid] = lapse{why: other} // for good: the kubelet does not ask for it, not even later
		}
		if refused := c.lapsed[uid].why; refused != nil {
			c.problems[uid] = notGivenError{error: refused, claim: true}
		} else if err != nil {
			c.problems[uid] = notGivenError{error: err}
		} else if asks && r.Exists(r.Pod[s.Plan.ID]) {
			waiting = append(waiting, i)
		}
	}
	for uid, a := range c.allocated { // a list may be old
		if r.Runs(ledger.PodID(uid)) {
			kept[uid] = a
		}
	}
	c.changed = c.changed || len(kept) < before
	c.allocated = kept
	for _, all := range []api.Allocations{c.unsaved, c.saving} {
		maps.DeleteFunc(all, func(uid types.UID, _ api.Allocation) bool { return len(kept[uid].Containers) == 0 })
	}
	c.forget(r)
	return waiting
}

// forget forgets what pods that have ended have lost.
func (c *Controller) forget(r *groups.Round) {
	ended := func(uid types.UID) bool {
		return !slices.ContainsFunc(r.Pods, func(s pods.Pod) bool { return s.Object.UID == uid && !s.Departed && !api.HasEnded(s.Object) })
	}
	maps.DeleteFunc(c.lapsed, func(uid types.UID, _ lapse) bool { return ended(uid) })
	maps.DeleteFunc(c.losses, func(uid types.UID, _ loss) bool { return ended(uid) })
	maps.DeleteFunc(c.unprepared, func(uid types.UID, _ error) bool { return ended(uid) })
}

// node is what decisions depend on.
type node struct {
	*groups.Round
	name  string
	books *ledger.Books
}

// allowed returns the CPUs of a set that a pod of this QoS class may use.
func allowed(r *groups.Round, s *pods.Pod, cpus cpuset.Set) cpuset.Set {
	if of, narrow := r.Allowed[s.Plan.Tier]; narrow {
		return cpus.Intersection(of)
	}
	return cpus
}

// withheld returns the CPUs of a set that are online and that a pod of this QoS class may not use.
func withheld(r *groups.Round, s *pods.Pod, cpus cpuset.Set) cpuset.Set {
	online := cpus.Intersection(r.Online)
	return online.Difference(allowed(r, s, online)).Union(cpus.Intersection(r.Withheld))
}

// giveAll allocates CPUs to pods, in this order, but last to those that borrow them. Who got nothing before
// gets nothing from less. It reports whether a pod got some.
func (c *Controller) giveAll(n node, waiting []int) (some bool) {
	slices.SortStableFunc(waiting, func(x, y int) int {
		return cmp.Or(n.borrower(x)-n.borrower(y), api.CompareBound(n.Pods[x].Object, n.Pods[y].Object))
	})
	last := c.refused
	if last.books == nil || !n.books.DecidesAs(last.books) || !maps.Equal(n.Allowed, last.allowed) {
		last.pods = nil
	}
	c.refused = refusals{n.books, n.Allowed, map[*corev1.Pod]error{}}
	for _, at := range waiting {
		pod := n.Pods[at].Object
		err, known := last.pods[pod]
		if !known {
			err = c.give(n, at)
		}
		if err != nil {
			c.problems[pod.UID], c.refused.pods[pod] = err, err
		}
		some = some || err == nil
	}
	return some
}

// borrower returns 1 for a pod that requests less than it asks for, else 0.
func (n node) borrower(at int) int {
	if intent, err := api.Parse(n.Pods[at].Object); err != nil || !api.Covers(&intent.Ask) {
		return 1
	}
	return 0
}

// give allocates CPUs to one pod.
func (c *Controller) give(n node, at int) error {
	s := &n.Pods[at]
	uid := s.Object.UID
	intent, err := api.Parse(s.Object)
	if err == nil && intent.Ask.Policy != placement.StaticBurst {
		err = c.aboveCeiling(n.Round, s.Object, intent.Ask.CPUs())
	}
	_, has := c.allocated[uid]
	if err != nil {
		return notGivenError{error: err, keeps: has}
	}
	defer func() { n.books.Add(c.claims[uid]) }()
	if has {
		return c.resize(n, at, intent.Ask)
	}
	n.books.Add(ledger.Claim{ID: ledger.PodID(uid)}) // it counts as a request until it has its CPUs
	intent.Ask.Within = allowed(n.Round, s, n.Online)
	var decision ledger.Decision
	err = c.withBorrowed(n, uid, !api.Covers(&intent.Ask), func() (err error) {
		decision, err = n.books.Decide(intent.Ask)
		return err
	})
	if err == nil {
		err = c.put(n, at, api.NewAllocation(c.name, n.books.Machine(), decision))
	}
	if err != nil {
		return notGivenError{error: err}
	}
	return nil
}
