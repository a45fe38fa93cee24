package report

import (
	"strings"

	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/quantity"
)

// Quality describes a placement by the criteria that matter to its policy.
func Quality(policy placement.Policy, q placement.Quality) string {
	nodes := quantity.Count(q.NUMANodes, "NUMA node")
	if policy == placement.StaticBurst {
		return nodes
	}
	cores := "whole cores"
	if q.SplitCores > 0 {
		cores = quantity.Count(q.SplitCores, "split core")
	}
	return strings.Join([]string{nodes, quantity.Count(q.LLCs, "LLC"), cores}, ", ")
}
