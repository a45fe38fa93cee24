// Package chart contains the Helm chart of the scheduler and the agent. Go programs can use only
// the file that is embedded, [NodeTopology]. The chart's README.md is its manual.
package chart

import _ "embed"

// NodeTopology is the CustomResourceDefinition of the kind NodeTopology, in YAML.
//
//go:embed crds/nodetopology.yaml
var NodeTopology []byte
