package ledger

import (
	"errors"
	"fmt"
	"math"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
)

// Ask is a pod's request for CPUs; see [Books.Decide].
type Ask struct {
	// Policy is placement.Static when empty. It counts only with Containers.
	Policy placement.Policy
	// FullCores is placement.FullCoresPreferred when empty. Required means that no core is shared
	// with another pod; containers of the pod share one only where their sizes leave no choice.
	FullCores placement.FullCores
	// Containers are those that get CPUs of their own choice, init containers in their order in the
	// pod. There are none for a pod that is not annotated.
	Containers []ContainerAsk
	// SharedRequest is what the rest of the pod requests; see [Claim].
	SharedRequest MilliCPU
}

// ContainerAsk is one container's request for CPUs.
type ContainerAsk struct {
	Name    string
	Role    Role
	CPUs    int // n, at least 1
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

// request is what Containers request, in the phase in which it is most.
func (a *Ask) request() MilliCPU {
	var need Phases[MilliCPU]
	for i := range a.Containers {
		need.Add(a.Containers[i].Role, a.Containers[i].Request.bounded())
	}
	return need.Largest()
}

// ErrInvalid is wrapped by errors about an Ask that no node could satisfy.
var ErrInvalid = errors.New("invalid question about a pod's CPUs")

func (a *Ask) validate() error {
	for _, c := range a.Containers {
		if c.CPUs < 1 || c.CPUs > math.MaxInt32 {
			return fmt.Errorf("%w: container %q wants %d CPUs, it must be 1 or more and what a machine can have", ErrInvalid, c.Name, c.CPUs)
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

// Decision is the result of [Books.Decide]: what a pod is to be given.
type Decision struct {
	// Containers stand in the order of the Ask's.
	Containers    []ContainerClaim
	SharedRequest MilliCPU
	// CPUs are those of the whole pod: exclusive ones, or for static-burst the shared CPUs that it
	// is confined to at present. Empty without Containers.
	CPUs cpuset.Set
	// Quality is that of CPUs.
	Quality placement.Quality
	// Exact is as in [placement.Result].
	Exact bool
}

// Claim returns the claim that enters the decision in the books.
func (d Decision) Claim(id PodID, rank int64) Claim {
	return Claim{ID: id, Rank: rank, Containers: d.Containers, SharedRequest: d.SharedRequest}
}

// Decide chooses the best CPUs or NUMA nodes for a pod within the rules. For a pod without
// ContainerAsks it checks whether its shared requests fit. It does not change the books. If the pod
// does not fit, the error is an *ExclusiveError, *SharedError or *ConfinementError. If the ask is
// invalid, it wraps ErrInvalid.
func (b *Books) Decide(ask Ask) (Decision, error) {
	placed, err := b.choose(&ask)
	if err != nil {
		return Decision{}, err
	}
	d := Decision{SharedRequest: ask.SharedRequest, CPUs: placed.CPUs, Quality: placed.Quality, Exact: placed.Exact}
	switch {
	case len(ask.Containers) == 0:
	case ask.Policy == placement.StaticBurst:
		d.Containers = b.confineAll(&ask, placed.CPUs)
	default:
		d.Containers, err = b.divide(&ask, placed.CPUs)
	}
	return d, err
}

// Rate returns the quality and the error of Books.Decide at lower cost.
func (b *Books) Rate(ask Ask) (placement.Quality, error) {
	placed, err := b.choose(&ask)
	return placed.Quality, err
}

// choose finds the best CPUs for the pod as a whole.
func (b *Books) choose(ask *Ask) (placement.Result, error) {
	if err := ask.validate(); err != nil {
		return placement.Result{}, err
	}
	burst := ask.Policy == placement.StaticBurst
	requested := ask.SharedRequest.bounded()
	if burst {
		requested += ask.request()
	}
	if left := b.unconfinedLeft(); requested > 0 && requested > left {
		return placement.Result{}, &SharedError{Need: requested, Have: max(0, left)}
	}
	switch {
	case len(ask.Containers) == 0:
		return placement.Result{Exact: true}, nil
	case burst:
		return b.chooseConfinement(ask)
	default:
		return b.chooseStatic(ask)
	}
}

// ExclusiveError reports that there are too few CPUs for a static pod.
type ExclusiveError struct {
	Want int
	// Have is the largest number of CPUs that the pod could be given. It is above Want only when
	// whole cores do not add up to just that many.
	Have      int
	FullCores placement.FullCores
}

func (e *ExclusiveError) Error() string {
	switch {
	case e.FullCores != placement.FullCoresRequired:
		return fmt.Sprintf("%d exclusive CPUs wanted, at most %d can be had", e.Want, e.Have)
	case e.Have > e.Want:
		return fmt.Sprintf("%d exclusive CPUs wanted in whole cores, which do not add up to %d (up to %d CPUs can be had)",
			e.Want, e.Want, e.Have)
	default:
		return fmt.Sprintf("%d exclusive CPUs wanted in whole cores, at most %d can be had", e.Want, e.Have)
	}
}

// SharedError reports that the shared CPUs cannot serve a pod's requests.
type SharedError struct {
	// Need is what the pod requests of them, Have is what is left.
	Need, Have MilliCPU
}

func (e *SharedError) Error() string {
	return fmt.Sprintf("%s CPUs requested of the shared CPUs, %s left there", e.Need, e.Have)
}

// ConfinementError reports that no permitted set of NUMA nodes has enough shared CPUs for a
// static-burst pod.
type ConfinementError struct {
	// Want is the number of CPUs wanted, Have the largest that NUMA nodes which keep the rules
	// share.
	Want, Have int
}

func (e *ConfinementError) Error() string {
	return fmt.Sprintf("%d shared CPUs wanted to be confined to, at most %d can be had", e.Want, e.Have)
}
