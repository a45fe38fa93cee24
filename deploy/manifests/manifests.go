// Package manifests contains the manifests of the scheduler and the agent, for kubectl apply.
package manifests

import _ "embed"

// NodeResourceTopology is the definition of the kind NodeResourceTopology, version v1alpha2, with
// the schema that its upstream project publishes.
//
//go:embed noderesourcetopology-crd.yaml
var NodeResourceTopology []byte
