package main

import (
	"slices"
	"strings"

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
leaderElection:
  leaderElect: true
`

// alone is a configuration without the election, which would be part of what is measured.
func alone(config string) string {
	return strings.Replace(config, "leaderElect: true", "leaderElect: false", 1)
}

const (
	withPlugin    = "pinfold"
	withoutPlugin = "none"
)

// inTurn returns the variants in the order of a round: each comes first in every
// other one.
func inTurn(round int) []variant {
	variants := []variant{
		{name: withPlugin, config: alone(scheduler.DefaultConfiguration), annotated: true},
		{name: withoutPlugin, config: alone(stockConfiguration)},
	}
	if round%2 == 1 {
		slices.Reverse(variants)
	}
	return variants
}
