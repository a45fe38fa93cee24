package main

import (
	"slices"

	"pinfold.dev/pinfold/kube/scheduler"
)

// variant is one of the two schedulers that are compared.
type variant struct {
	name string
	// config is its KubeSchedulerConfiguration. How fast it may send requests is the
	// local cluster's to say, which says the same to both.
	config string
	// annotated tells whether the pods ask for CPUs.
	annotated bool
}

// stockConfiguration is kube-scheduler as it comes.
const stockConfiguration = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
`

const (
	withPlugin    = "pinfold"
	withoutPlugin = "none"
)

// inTurn returns the variants in the order of a round: each comes first in every
// other one.
func inTurn(round int) []variant {
	variants := []variant{
		{name: withPlugin, config: scheduler.DefaultConfiguration, annotated: true},
		{name: withoutPlugin, config: stockConfiguration},
	}
	if round%2 == 1 {
		slices.Reverse(variants)
	}
	return variants
}
