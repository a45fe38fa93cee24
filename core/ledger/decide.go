package ledger

import (
	"errors"
	"fmt"
	"math"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/quantity"
)

// Ask is a pod's request for CPUs; see [Books.Decide].
type Ask struct {
	// Policy is placement.Static when empty. It is ignored without Containers.
	Policy placement.Policy
	// FullCores is placement.FullCoresPreferred when empty. Required means that the pod shares no
	// core with another pod. Its own containers share a core only if their sizes make it necessary.
	FullCores placement.FullCores
	// Containers are the containers to place, init containers in the order of the pod. There are
	// none for a pod without annotations.
	Containers []ContainerAsk
	// Within are the only CPUs that a static pod may get, unless it is empty.
	Within cpuset.Set
	// SharedRequest is as in [Claim].
	SharedRequest MilliCPU
}

// ContainerAsk is one container's request for CPUs.
type ContainerAsk struct {
	Name    string
	Role    Role
	CPUs    int // at least 1
	Request MilliCPU
}

// CPUs returns the number of CPUs that the pod needs: the largest need of any phase.
func (a *Ask) CPUs() int {
	var need Phases[int]
	for i := range a.Containers {
		need.Add(a.Containers[i].Role, a.Containers[i].CPUs)
	}
	return need.Largest()
}

// request returns the largest sum of the Requests of Containers in any phase.
func (a *Ask) request() MilliCPU {
	var need Phases[MilliCPU]
	for i := range a.Containers {
		need.Add(a.Containers[i].Role, a.Containers[i].Request.bounded())
	}
	return need.Largest()
}

// ErrInvalid is wrapped by errors about an Ask that is not valid on any node.
var ErrInvalid = errors.New("invalid request for a pod's CPUs")

func (a *Ask) validate() error {
	for _, c := range a.Containers {
		if c.CPUs < 1 || c.CPUs > math.MaxInt32 {
			return fmt.Errorf("%w: container %q wants %d CPUs: it must be 1 to %d", ErrInvalid, c.Name, c.CPUs, math.MaxInt32)
		}
	}
	switch a.Policy {
	case "", placement.Static, placement.StaticBurst:
	default:
		return fmt.Errorf("%w: policy %q is neither %q nor %q", ErrInvalid, a.Policy, placement.Static, placement.StaticBurst)
	}
	switch a.FullCores {
	case "", placement.FullCoresPreferred, placement.FullCoresRequired:
	default:
		return fmt.Errorf("%w: full cores %q is neither %q nor %q", ErrInvalid, a.FullCores,
			placement.FullCoresPreferred, placement.FullCoresRequired)
	}
	return nil
}

// Decision is the result of [Books.Decide]: what a pod gets.
type Decision struct {
	// Containers are in the order of the Ask.
	Containers    []ContainerClaim
	SharedRequest MilliCPU
	// Result has the CPUs of the whole pod: exclusive ones or, for static-burst, the CPUs shared at
	// present that it is confined to. They are empty without Containers.
	placement.Result
}

// Claim returns the claim that adds the decision to the books.
func (d Decision) Claim(id PodID, rank int64) Claim {
	return Claim{ID: id, Rank: rank, Containers: d.Containers, SharedRequest: d.SharedRequest}
}

// Decide chooses the best CPUs or NUMA nodes for a pod within the rules. For a pod without
// ContainerAsks it checks whether its shared requests fit. It does not change the books. If the pod
// does not fit, or the search for its CPUs exceeds the budget of a decision ([placement.Budget]),
// the error is an *ExclusiveError, *SharedError or *ConfinementError. If the ask is invalid, it wraps
// ErrInvalid.
func (b *Books) Decide(ask Ask) (Decision, error) {
	var budget placement.Budget
	placed, err := b.choose(&ask, &budget)
	if err != nil {
		return Decision{}, err
	}
	d := Decision{SharedRequest: ask.SharedRequest, Result: placed}
	switch {
	case len(ask.Containers) == 0:
	case ask.Policy == placement.StaticBurst:
		d.Containers = b.confineAll(&ask, placed.CPUs)
	default:
		d.Containers, err = b.divide(&ask, placed.CPUs, &budget)
	}
	return d, err
}

// Rate returns the quality and the error of Books.Decide at lower cost.
func (b *Books) Rate(ask Ask) (placement.Quality, error) {
	placed, err := b.choose(&ask, new(placement.Budget))
	return placed.Quality, err
}

// choose finds the best CPUs for the whole pod. It sets the budget to what is left of the decision's.
func (a *account) choose(ask *Ask, budget *placement.Budget) (placement.Result, error) {
	if err := ask.validate(); err != nil {
		return placement.Result{}, err
	}
	burst := ask.Policy == placement.StaticBurst
	requested := ask.SharedRequest.bounded()
	if burst {
		requested += ask.request()
	}
	if left := a.unconfinedLeft(); requested > 0 && requested > left {
		return placement.Result{}, &SharedError{Need: requested, Have: max(0, left)}
	}
	if len(ask.Containers) == 0 {
		return placement.Result{Exact: true}, nil
	}
	*budget = *a.digest().served.budget // what the flow has left, as if this decision had computed it
	if burst {
		return a.chooseConfinement(ask, budget)
	}
	return a.chooseStatic(ask, budget)
}

// ExclusiveError reports that there are too few CPUs for a static pod.
type ExclusiveError struct {
	Want int
	// Have is the largest number of CPUs that the pod could get. It exceeds Want only if whole
	// cores do not add up to exactly Want.
	Have      int
	FullCores placement.FullCores
	// GaveUp is true if the search for them exceeded its budget. Have is an upper bound then.
	GaveUp bool
}

// gaveUp is the reason of a refusal after a search that exceeded its budget.
const gaveUp = ", but the static-burst pods overlap in too many ways to find them"

func (e *ExclusiveError) Error() string {
	want := quantity.Count(e.Want, "exclusive CPU") + " wanted"
	switch {
	case e.GaveUp:
		return want + gaveUp
	case e.FullCores != placement.FullCoresRequired:
		return fmt.Sprintf("%s, at most %d available", want, e.Have)
	case e.Have > e.Want:
		return fmt.Sprintf("%s in whole cores, which do not add up to %d (up to %d available)", want, e.Want, e.Have)
	default:
		return fmt.Sprintf("%s in whole cores, at most %d available", want, e.Have)
	}
}

// SharedError reports that the shared CPUs cannot serve a pod's requests.
type SharedError struct {
	// Need is what the pod requests, Have is what is left.
	Need, Have MilliCPU
}

func (e *SharedError) Error() string {
	return fmt.Sprintf("%s CPUs requested of the shared CPUs, %s left there", e.Need, e.Have)
}

// ConfinementError reports that no permitted set of NUMA nodes has enough shared CPUs for a
// static-burst pod.
type ConfinementError struct {
	// Want is the number of CPUs wanted. Have is the largest number of shared CPUs of NUMA nodes
	// that the rules permit.
	Want, Have int
	// GaveUp is as in [ExclusiveError].
	GaveUp bool
}

func (e *ConfinementError) Error() string {
	if e.GaveUp {
		return fmt.Sprintf("confinement to %s wanted%s", quantity.Count(e.Want, "shared CPU"), gaveUp)
	}
	return fmt.Sprintf("confinement to %s wanted, at most %d available", quantity.Count(e.Want, "shared CPU"), e.Have)
}
