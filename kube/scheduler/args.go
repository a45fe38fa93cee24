package scheduler

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// DefaultConfiguration is the KubeSchedulerConfiguration of a cluster whose default scheduler has
// the plugin, in YAML.
//
// Filter runs the plugins that check only the node first, then this plugin, then (by multiPoint)
// all others. So a tainted node is rejected because of its taint, and a node whose CPUs are in use
// with this plugin's reason instead of "Insufficient cpu". The weight lets a better placement
// outweigh the other plugins, whose weights sum to 12, when there are few classes of quality; see
// NormalizeScore.
//
// The lease is that of kube-scheduler, so that either this scheduler or a stock kube-scheduler is
// active.
const DefaultConfiguration = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: true
  resourceLock: leases
  resourceNamespace: kube-system
  resourceName: kube-scheduler
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      enabled:
      - name: Pinfold
        weight: 20
    filter:
      enabled:
      - name: NodeUnschedulable
      - name: NodeName
      - name: TaintToleration
      - name: NodeAffinity
      - name: Pinfold
  pluginConfig:
  - name: Pinfold
    args:
      apiVersion: pinfold.dev/v1alpha1
      kind: PinfoldArgs
      scoringStrategy: LeastAllocated
      minSharedCPUs: 1
      agentGracePeriod: 2m
      agentLeaseNamespace: pinfold-system
`

// ScoringStrategy determines which of two nodes with equally good placements is preferred.
type ScoringStrategy string

const (
	// LeastAllocated prefers the node with the larger share of free CPUs.
	LeastAllocated ScoringStrategy = "LeastAllocated"
	// MostAllocated prefers the node with the smaller share of free CPUs, which keeps other nodes
	// empty.
	MostAllocated ScoringStrategy = "MostAllocated"
)

// argsVersion and argsKind are optional in the arguments, as in those of kube-scheduler's own
// plugins.
const (
	argsVersion = "pinfold.dev/v1alpha1"
	argsKind    = "PinfoldArgs"
)

// defaultAgentGracePeriod is the time in which an agent renews its lease three times.
const defaultAgentGracePeriod = 2 * time.Minute

// Args are the plugin's arguments in a KubeSchedulerConfiguration, for example in
// [DefaultConfiguration].
type Args struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	// ScoringStrategy defaults to LeastAllocated.
	ScoringStrategy ScoringStrategy `json:"scoringStrategy,omitempty"`
	// MinSharedCPUs is the number of CPUs of every node that stay shared, for example for
	// DaemonSets.
	MinSharedCPUs *int `json:"minSharedCPUs,omitempty"`
	// AgentGracePeriod is the time without a renewed lease after which an agent counts as silent.
	// Pods that ask are not scheduled on nodes with silent agents. 0s disables the check.
	AgentGracePeriod *metav1.Duration `json:"agentGracePeriod,omitempty"`
	// AgentLeaseNamespace is the namespace of the agents' leases.
	AgentLeaseNamespace string `json:"agentLeaseNamespace,omitempty"`
	// EvictBatchPods evicts batch pods from nodes on which they starve; see package evict. All
	// profiles need the same value.
	EvictBatchPods bool `json:"evictBatchPods,omitempty"`
	// Ceilings limit what pods may ask for. The scheduler enforces exclusiveCPUs, the agent the
	// rest.
	Ceilings api.Ceilings `json:"ceilings,omitzero"`
}

// parseArgs decodes and checks the plugin's arguments. Their type is not registered with
// kube-scheduler, which therefore passes them as text.
func parseArgs(obj runtime.Object) (Args, error) {
	args, err := decodeArgs(obj)
	if err == nil {
		err = args.complete()
	}
	if err != nil {
		return Args{}, fmt.Errorf("arguments of plugin %s (pluginConfig in the scheduler's configuration): %w", Name, err)
	}
	return args, nil
}

// decodeArgs rejects unknown, duplicate and misspelled fields (case matters).
func decodeArgs(obj runtime.Object) (args Args, err error) {
	if obj == nil {
		return args, nil
	}
	text, ok := obj.(*runtime.Unknown)
	if !ok {
		return args, fmt.Errorf("they are a %T, not text", obj)
	}
	return args, api.DecodeYAML(text.Raw, &args)
}

// complete sets defaults and checks values.
func (a *Args) complete() error {
	a.ScoringStrategy = cmp.Or(a.ScoringStrategy, LeastAllocated)
	a.AgentLeaseNamespace = cmp.Or(a.AgentLeaseNamespace, nodetopology.LeaseNamespace)
	if a.MinSharedCPUs == nil {
		a.MinSharedCPUs = new(api.DefaultMinSharedCPUs)
	}
	if a.AgentGracePeriod == nil {
		a.AgentGracePeriod = &metav1.Duration{Duration: defaultAgentGracePeriod}
	}
	var errs []error
	if a.APIVersion != "" && a.APIVersion != argsVersion {
		errs = append(errs, fmt.Errorf("apiVersion %q is not known, only %q is", a.APIVersion, argsVersion))
	}
	if a.Kind != "" && a.Kind != argsKind {
		errs = append(errs, fmt.Errorf("kind %q is not known, only %q is", a.Kind, argsKind))
	}
	if a.ScoringStrategy != LeastAllocated && a.ScoringStrategy != MostAllocated {
		errs = append(errs, fmt.Errorf("scoringStrategy %q is neither %q nor %q", a.ScoringStrategy, LeastAllocated, MostAllocated))
	}
	if *a.MinSharedCPUs < 0 {
		errs = append(errs, fmt.Errorf("minSharedCPUs is %d; it must be 0 or more", *a.MinSharedCPUs))
	}
	if d := a.AgentGracePeriod.Duration; d < 0 || d > 0 && d < time.Second {
		errs = append(errs, fmt.Errorf("agentGracePeriod is %v; it must be 1s or more, or 0s for no limit", d))
	}
	if err := a.Ceilings.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("ceilings: %w", err))
	}
	return errors.Join(errs...)
}
