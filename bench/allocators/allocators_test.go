package main

import (
	"testing"

	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// TestOutput compares the systems on a small machine.
func TestOutput(t *testing.T) {
	shape := topology.Shape{Packages: 2, LLCsPerNUMA: 2, CoresPerLLC: 4, ThreadsPerCore: 2}
	text := ""
	for _, mx := range mixes() {
		c := comparison{machine: "32 CPUs, 2 NUMA nodes, 4 LLCs", shape: shape, mix: mx, nodes: 3, pods: 30, seeds: 2}
		text += must.Get(c.table(t.Context()))(t)
	}
	golden.Compare(t, "testdata/output.markdown", text)
}
