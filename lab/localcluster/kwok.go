package localcluster

import (
	"strings"

	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
)

const kwokConfigName = "kwok.yaml"

// SimulatedAnnotation and SimulatedValue mark the nodes whose kubelet KWOK
// plays.
const (
	SimulatedAnnotation = "kwok.x-k8s.io/node"
	SimulatedValue      = "fake"
)

// kwokOptions widens KWOK's workers from 4, so that 1,000 nodes become ready
// in seconds, and leaves its server off: nobody reads logs of simulated pods.
const kwokOptions = `apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  cidr: 10.244.0.0/16
  manageNodesWithAnnotationSelector: ` + SimulatedAnnotation + "=" + SimulatedValue + `
  nodeLeaseDurationSeconds: 0
  nodePlayStageParallelism: 16
  podPlayStageParallelism: 16
`

// kwokConfig returns KWOK's configuration: its options, and the life of
// simulated nodes and pods as KWOK itself ships it. A node is ready at once, a
// bound pod runs at once, the pod of a Job succeeds at once, and a deleted pod
// is gone at once.
func kwokConfig() []byte {
	return []byte(strings.Join([]string{
		kwokOptions,
		nodefast.DefaultNodeInit,
		podfast.DefaultPodReady,
		podfast.DefaultPodComplete,
		podfast.DefaultPodDelete,
	}, "\n---\n"))
}
