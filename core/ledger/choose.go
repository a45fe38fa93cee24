package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
)

// divide divides the pod's CPUs among its containers: first the long-running ones, the largest
// first so that it stays in one piece; then each ordinary init container, out of what the sidecars
// before it leave.
func (s *site) divide(ask *Ask, all cpuset.Set, budget *placement.Budget) ([]ContainerClaim, error) {
	claims := make([]ContainerClaim, len(ask.Containers))
	lasting := make([]int, 0, len(claims))
	for i, c := range ask.Containers {
		claims[i] = ContainerClaim{Name: c.Name, Role: c.Role, Policy: placement.Static, Limit: c.CPUs, Request: c.Request}
		if c.Role != RoleInit {
			lasting = append(lasting, i)
		}
	}
	slices.SortStableFunc(lasting, func(i, j int) int { return cmp.Compare(claims[j].Limit, claims[i].Limit) })
	left := all
	for _, i := range lasting {
		part, err := s.part(left, claims[i].Limit, ask.FullCores, budget)
		if err != nil {
			return nil, fmt.Errorf("container %q: %w", claims[i].Name, err)
		}
		claims[i].CPUs = part
		left = left.Difference(part)
	}
	left = all
	for i := range claims {
		switch c := &claims[i]; c.Role {
		case RoleSidecar:
			left = left.Difference(c.CPUs)
		case RoleInit:
			part, err := s.part(left, c.Limit, ask.FullCores, budget)
			if err != nil {
				return nil, fmt.Errorf("init container %q: %w", c.Name, err)
			}
			c.CPUs = part
		}
	}
	return claims, nil
}

// part chooses n CPUs of a set that has at least n: the best ones or, if the budget is exhausted, the
// lowest ones.
func (s *site) part(of cpuset.Set, n int, fullCores placement.FullCores, budget *placement.Budget) (cpuset.Set, error) {
	switch {
	case of.Len() == n:
		return of, nil
	case budget.Exhausted():
		return of.FirstN(n), nil
	}
	request := placement.Request{CPUs: n, Policy: placement.Static, FullCores: fullCores, Budget: budget}
	placed, err := s.index.Place(of, request)
	if fullCores == placement.FullCoresRequired && errors.As(err, new(*placement.InsufficientError)) {
		// The pod has whole cores, but two of its containers must share one.
		request.FullCores = placement.FullCoresPreferred
		placed, err = s.index.Place(of, request)
	}
	switch {
	case err == nil:
		return placed.CPUs, nil
	case budget.Exhausted():
		return of.FirstN(n), nil
	}
	return cpuset.Set{}, fmt.Errorf("choose %d of CPUs %s: %w", n, of, err)
}

// chooseConfinement chooses the NUMA nodes for a static-burst pod.
func (a *account) chooseConfinement(ask *Ask, budget *placement.Budget) (placement.Result, error) {
	want, need := ask.CPUs(), ask.request()
	served, trial := a.digest().served, &flow{budget: budget}
	placed, err := a.index.Place(a.Shared(), placement.Request{
		CPUs:   want,
		Policy: placement.StaticBurst,
		Budget: budget,
		Admit: func(ids []topology.NUMAID) bool {
			nodes := a.positions(ids)
			if served.unused(nodes) >= need {
				return true
			}
			trial.copyFrom(served)
			return trial.add(nodes, need) == 0
		},
	})
	var insufficient *placement.InsufficientError
	if errors.As(err, &insufficient) {
		return placement.Result{}, &ConfinementError{Want: want, Have: insufficient.Have, GaveUp: insufficient.GaveUp}
	}
	if err != nil {
		return placement.Result{}, fmt.Errorf("choose NUMA nodes with %d shared CPUs: %w", want, err)
	}
	return placed, nil
}

// confineAll returns the claims of the containers of a static-burst pod, which are confined to the
// NUMA nodes of the CPUs.
func (s *site) confineAll(ask *Ask, cpus cpuset.Set) []ContainerClaim {
	claims := make([]ContainerClaim, len(ask.Containers))
	ids := s.ids(s.nodesOf(cpus))
	for i, c := range ask.Containers {
		claims[i] = ContainerClaim{Name: c.Name, Role: c.Role, Policy: placement.StaticBurst, Limit: c.CPUs,
			Request: c.Request, NUMANodes: ids}
	}
	return claims
}
