// Package manifests contains the manifests of the scheduler and the agent, for kubectl apply. Go
// programs can use only the one that is embedded, [NodeResourceTopology].
package manifests

import _ "embed"

// NodeResourceTopology is the CustomResourceDefinition of the kind NodeResourceTopology, version
// v1alpha2, in YAML, with the schema that its upstream project publishes.
//
//go:embed noderesourcetopology-crd.yaml
var NodeResourceTopology []byte
