package scheduler

import (
	"testing"

	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
)

// Questions that can have different answers have different keys.
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
	names := map[string]string{}
	for name, ask := range asks {
		key := keyOf(&ask)
		if other, ok := names[key]; ok {
			t.Errorf("%q and %q both have the key %q", name, other, key)
		}
		names[key] = name
	}
}
