// Package chart contains the Helm chart of the scheduler and the agent. Go programs can use only
// the file that is embedded, [NodeResourceTopology]. The chart's README.md is its manual.
package chart

import _ "embed"

// NodeResourceTopology is the CustomResourceDefinition of the kind NodeResourceTopology, version
// v1alpha2, in YAML, with the schema that its upstream project publishes.
//
//go:embed crds/noderesourcetopology.yaml
var NodeResourceTopology []byte
