package scheduler

import (
	"testing"

	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
)

// Every two questions to which a node may answer differently have different keys.
func TestKeysTellQuestionsApart(t *testing.T) {
	container := func(role ledger.Role, cpus int, request ledger.MilliCPU) ledger.ContainerAsk {
		return ledger.ContainerAsk{Name: "main", Role: role, CPUs: cpus, Request: request}
	}
	asks := map[string]ledger.Ask{
		"nothing":       {},
		"request":       {SharedRequest: 11},
		"one CPU":       {Containers: []ledger.ContainerAsk{container(ledger.RoleMain, 1, 0)}},
		"eleven CPUs":   {Containers: []ledger.ContainerAsk{container(ledger.RoleMain, 11, 0)}},
		"two of one":    {Containers: []ledger.ContainerAsk{container(ledger.RoleMain, 1, 0), container(ledger.RoleMain, 1, 0)}},
		"with sidecar":  {Containers: []ledger.ContainerAsk{container(ledger.RoleSidecar, 1, 0), container(ledger.RoleMain, 1, 0)}},
		"with init":     {Containers: []ledger.ContainerAsk{container(ledger.RoleInit, 1, 0), container(ledger.RoleMain, 1, 0)}},
		"shared beside": {Containers: []ledger.ContainerAsk{container(ledger.RoleMain, 1, 0)}, SharedRequest: 1},
		"whole cores":   {FullCores: placement.FullCoresRequired, Containers: []ledger.ContainerAsk{container(ledger.RoleMain, 1, 0)}},
		"burst":         {Policy: placement.StaticBurst, Containers: []ledger.ContainerAsk{container(ledger.RoleMain, 1, 0)}},
		"burst, request": {Policy: placement.StaticBurst, Containers: []ledger.ContainerAsk{
			container(ledger.RoleMain, 1, 1)}},
	}
	names := map[questionKey]string{}
	for name, ask := range asks {
		key := keyOf(&ask)
		if other, ok := names[key]; ok {
			t.Errorf("%q and %q have the key %q", name, other, key.Value())
		}
		names[key] = name
	}
}

// Nodes in the same situation answer a question once between them.
func TestAnswersAreSharedBetweenSituations(t *testing.T) {
	var s situations
	index := newIndexes().of(topology.Shape{CoresPerLLC: 16}.MustBuild())
	books := func(minShared int, claims ...ledger.Claim) ledger.Situation {
		return ledger.New(index, ledger.Config{MinShared: minShared}, claims...).Situation()
	}
	one := s.of(books(1, ledger.Claim{ID: "a", SharedRequest: 5}))
	if s.of(books(1, ledger.Claim{ID: "b", Rank: 7, SharedRequest: 5})) != one {
		t.Error("the same situation with another pod has answers of its own")
	}
	if s.of(books(2, ledger.Claim{ID: "a", SharedRequest: 5})) == one {
		t.Error("two situations have their answers in common")
	}
	for i := range maxSituations + 5 {
		s.of(books(i))
		if n := len(s.known); n > maxSituations {
			t.Fatalf("%d situations are kept, want at most %d", n, maxSituations)
		}
	}
}
