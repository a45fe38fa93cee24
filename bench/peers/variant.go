package main

import (
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
)

// variant is a way to configure a kubelet whose CPU manager policy is static.
type variant struct {
	name            string
	topologyPolicy  string            // topologyManagerPolicy
	topologyOptions map[string]string // topologyManagerPolicyOptions
	cpuOptions      map[string]string // cpuManagerPolicyOptions
}

// variants are the kubelets that are compared: the default; hints; hints with
// whole LLCs preferred; and all that serves criteria 2 to 5, which adds distance.
// full-pcpus-only is none of them since it refuses and does not choose
// (TestFullCoresOnlyChoosesAlike).
func variants() []variant {
	llcs := map[string]string{cpumanager.PreferAlignByUnCoreCacheOption: "true"}
	nearest := map[string]string{topologymanager.PreferClosestNUMANodes: "true"}
	return []variant{
		{name: "kubelet, default", topologyPolicy: topologymanager.PolicyNone},
		{name: "kubelet, hint", topologyPolicy: topologymanager.PolicyBestEffort},
		{name: "kubelet, hint+LLC", topologyPolicy: topologymanager.PolicyBestEffort, cpuOptions: llcs},
		{name: "kubelet, hint+LLC+nearest", topologyPolicy: topologymanager.PolicyBestEffort, topologyOptions: nearest, cpuOptions: llcs},
	}
}
