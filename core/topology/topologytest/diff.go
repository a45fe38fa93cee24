package topologytest

import (
	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// Diff reports how two machines differ, with CPU sets as lists; "" when they are the same.
func Diff(want, got *topology.Machine) string {
	return cmp.Diff(want, got, cmp.Transformer("list", cpuset.Set.String))
}
