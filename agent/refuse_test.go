package agent

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/kube/nri"
)

// TestRefuseUnknownPod: with --on-failure=refuse a pod that asks must not start in the shared CPUs, and
// the agent does not know yet what it will get. Static pods may be what it needs to know pods.
func TestRefuseUnknownPod(t *testing.T) {
	n := newQuietNode(t, colocation.Config{})
	known := n.pods.list()
	for name, test := range map[string]struct {
		annotations map[string]string
		pods        []*corev1.Pod
		refuses     bool
		want        bool // an error
	}{
		"asks":                  {map[string]string{"pinfold.dev/cpuset-scheduler": "true"}, known, true, true},
		"asks, no pod is known": {map[string]string{"cpuset-scheduler": "true", "kubernetes.io/config.source": "api"}, nil, true, true},
		"does not ask":          {nil, nil, true, false},
		"a static pod":          {map[string]string{"cpuset-scheduler": "true", "kubernetes.io/config.source": "file"}, nil, true, false},
		"may run shared":        {map[string]string{"cpuset-scheduler": "true"}, known, false, false},
	} {
		n.Refuses, n.pods.list = test.refuses, func() []*corev1.Pod { return test.pods }
		_, err := runtimeHandler{n.engine}.Create(t.Context(), nri.Pod{UID: ledger.PodID("uid-new"), Annotations: test.annotations}, nri.Container{ID: containerID('e'), Name: "app"})
		if (err != nil) != test.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
