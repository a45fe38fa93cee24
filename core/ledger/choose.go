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

// chooseStatic places all CPUs of a static pod as one request.
func (b *Books) chooseStatic(ask *Ask) (placement.Result, error) {
	short := b.serve(cpuset.Set{}).shortfall()
	s := staticSearch{books: b, short: short, free: b.Free(), request: placement.Request{
		Policy:    placement.Static,
		FullCores: ask.FullCores,
		Limits:    b.limits(ask.SharedRequest.bounded(), short),
	}}
	want := ask.CPUs()
	placed, err := s.place(want)
	var insufficient *placement.InsufficientError
	if !errors.As(err, &insufficient) {
		return placed, err
	}
	have, err := s.largest(insufficient.Have)
	if err != nil {
		return placement.Result{}, err
	}
	return placement.Result{}, &ExclusiveError{Want: want, Have: have, FullCores: ask.FullCores}
}

// staticSearch looks for exclusive CPUs. See "Decisions" in the package comment.
type staticSearch struct {
	books   *Books
	short   MilliCPU // what of the confined requests cannot be served as it is
	free    cpuset.Set
	request placement.Request // its Limits grow by the bounds that turn out to bind
}

// place chooses the best n CPUs that keep the rules. The error wraps an
// [placement.InsufficientError] when there are none.
func (s *staticSearch) place(n int) (placement.Result, error) {
	s.request.CPUs = n
	for {
		placed, err := s.books.index.Place(s.free, s.request)
		if err != nil {
			return placement.Result{}, fmt.Errorf("place %d exclusive CPUs: %w", n, err)
		}
		limit, broken := s.books.brokenBy(placed.CPUs, s.short)
		if !broken {
			return placed, nil
		}
		s.request.Limits = append(s.request.Limits, limit)
	}
}

// fits is place without the choice.
func (s *staticSearch) fits(n int) (bool, error) {
	_, err := s.place(n)
	if errors.As(err, new(*placement.InsufficientError)) {
		return false, nil
	}
	return err == nil, err
}

// largest returns the largest number of CPUs that could be had; guess is where to
// look first. Whole cores come in lumps, so the search for them starts from what
// could be had of their CPUs one by one, and goes down.
func (s *staticSearch) largest(guess int) (int, error) {
	if s.request.FullCores != placement.FullCoresRequired {
		return s.largestOneByOne(guess)
	}
	lumps := *s
	lumps.free = wholeCores(s.books.index.Machine(), s.free)
	single := lumps
	single.request.FullCores = placement.FullCoresPreferred
	most, err := single.largestOneByOne(guess)
	for ; err == nil && most > 0; most-- {
		fits, ferr := lumps.fits(most)
		if err = ferr; fits {
			break
		}
	}
	return most, err
}

// largestOneByOne is largest when any part of what can be had can be had, too.
func (s *staticSearch) largestOneByOne(guess int) (int, error) {
	fits, tooMany := 0, min(s.free.Len(), s.request.Limits[0].CPUs)+1
	if len(s.books.confinements) == 0 {
		return tooMany - 1, nil
	}
	for n := guess; fits+1 < tooMany; {
		n = min(max(n, fits+1), tooMany-1)
		ok, err := s.fits(n)
		switch {
		case err != nil:
			return 0, err
		case ok && n == guess:
			fits, n = n, n+1 // most often the guess is right
		case ok:
			fits, n = n, (n+tooMany)/2
		default:
			tooMany, n = n, (fits+n)/2
		}
	}
	return fits, nil
}

// wholeCores returns the CPUs of the cores of which all online threads are free.
func wholeCores(m *topology.Machine, free cpuset.Set) (whole cpuset.Set) {
	for _, core := range m.Cores() {
		if core.CPUs.IsSubsetOf(free) {
			whole = whole.Union(core.CPUs)
		}
	}
	return whole
}

// divide gives each container its part of the pod's CPUs: first the containers
// that run for long, the largest first so that it stays in one piece; then each
// ordinary init container out of what the sidecars before it leave.
func (b *Books) divide(ask *Ask, all cpuset.Set) ([]ContainerClaim, error) {
	claims := make([]ContainerClaim, len(ask.Containers))
	var lasting []int
	for i, c := range ask.Containers {
		claims[i] = ContainerClaim{Name: c.Name, Role: c.Role, Policy: placement.Static, Limit: c.CPUs, Request: c.Request}
		if c.Role != RoleInit {
			lasting = append(lasting, i)
		}
	}
	slices.SortStableFunc(lasting, func(i, j int) int { return cmp.Compare(claims[j].Limit, claims[i].Limit) })
	left := all
	for _, i := range lasting {
		part, err := b.part(left, claims[i].Limit, ask.FullCores)
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
			part, err := b.part(left, c.Limit, ask.FullCores)
			if err != nil {
				return nil, fmt.Errorf("init container %q: %w", c.Name, err)
			}
			c.CPUs = part
		}
	}
	return claims, nil
}

// part chooses n of the pod's CPUs. There are that many.
func (b *Books) part(of cpuset.Set, n int, fullCores placement.FullCores) (cpuset.Set, error) {
	if of.Len() == n {
		return of, nil
	}
	request := placement.Request{CPUs: n, Policy: placement.Static, FullCores: fullCores}
	placed, err := b.index.Place(of, request)
	if fullCores == placement.FullCoresRequired && errors.As(err, new(*placement.InsufficientError)) {
		// The pod's cores are whole; its containers have to share one.
		request.FullCores = placement.FullCoresPreferred
		placed, err = b.index.Place(of, request)
	}
	if err != nil {
		return cpuset.Set{}, fmt.Errorf("choose %d of CPUs %s: %w", n, of, err)
	}
	return placed.CPUs, nil
}

// chooseConfinement chooses the NUMA nodes of a static-burst pod.
func (b *Books) chooseConfinement(ask *Ask) (placement.Result, error) {
	want, need := ask.CPUs(), ask.request()
	served := b.serve(cpuset.Set{})
	placed, err := b.index.Place(b.Shared(), placement.Request{
		CPUs:   want,
		Policy: placement.StaticBurst,
		Admit: func(ids []topology.NUMAID) bool {
			return need == 0 || served.clone().add(b.positions(ids), need) == 0
		},
	})
	var insufficient *placement.InsufficientError
	if errors.As(err, &insufficient) {
		return placement.Result{}, &ConfinementError{Want: want, Have: insufficient.Have}
	}
	if err != nil {
		return placement.Result{}, fmt.Errorf("choose NUMA nodes with %d shared CPUs: %w", want, err)
	}
	return placed, nil
}

// confineAll confines all containers of a static-burst pod to the NUMA nodes that
// have the CPUs.
func (b *Books) confineAll(ask *Ask, cpus cpuset.Set) []ContainerClaim {
	claims := make([]ContainerClaim, len(ask.Containers))
	ids := b.ids(b.nodesOf(cpus))
	for i, c := range ask.Containers {
		claims[i] = ContainerClaim{Name: c.Name, Role: c.Role, Policy: placement.StaticBurst, Limit: c.CPUs,
			Request: c.Request, NUMANodes: ids}
	}
	return claims
}
