package scheduler

import (
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// ScoringStrategy says which of two nodes is better when the placements on them
// are equally good.
type ScoringStrategy string

const (
	// LeastAllocated prefers the node with the larger share of CPUs left.
	LeastAllocated ScoringStrategy = "LeastAllocated"
	// MostAllocated prefers the node with the smaller share of CPUs left, so that
	// other nodes stay empty.
	MostAllocated ScoringStrategy = "MostAllocated"
)

// ArgsVersion and ArgsKind may stand in the arguments, as they may in those of
// kube-scheduler's own plugins.
const (
	ArgsVersion = "pinfold.dev/v1alpha1"
	ArgsKind    = "PinfoldArgs"
)

// DefaultAgentGracePeriod is four renewals of an agent's lease.
const DefaultAgentGracePeriod = 40 * time.Second

// Args are the plugin's arguments in a KubeSchedulerConfiguration:
//
//	pluginConfig:
//	- name: Pinfold
//	  args:
//	    scoringStrategy: LeastAllocated
//	    minSharedCPUs: 1
//	    agentGracePeriod: 40s
type Args struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	// ScoringStrategy is LeastAllocated when empty.
	ScoringStrategy ScoringStrategy `json:"scoringStrategy,omitempty"`
	// MinSharedCPUs is the least number of CPUs of every node that no container
	// gets for itself, so that DaemonSets and the like have a place.
	MinSharedCPUs *int `json:"minSharedCPUs,omitempty"`
	// SigningKey is the file of the Ed25519 key (PEM, PKCS #8) by which allocations are
	// signed. When it is empty they are not, and all count.
	SigningKey string `json:"signingKey,omitempty"`
	// VerifyKeys is a file of public keys (PEM) whose allocations count too: those of
	// schedulers before and after this one.
	VerifyKeys string `json:"verifyKeys,omitempty"`
	// AgentGracePeriod is how long a node's agent may be silent before no pod that asks is
	// scheduled there; 0s lets it be silent for ever.
	AgentGracePeriod *metav1.Duration `json:"agentGracePeriod,omitempty"`
	// AgentLeaseNamespace is where agents have their leases.
	AgentLeaseNamespace string `json:"agentLeaseNamespace,omitempty"`
	// Ceilings bound what pods may ask for. Of each the scheduler looks at exclusiveCPUs;
	// the rest is the agent's.
	Ceilings api.Ceilings `json:"ceilings,omitzero"`
}

// parseArgs reads what the scheduler's configuration holds for this plugin. The
// type is not registered with kube-scheduler, so it arrives as text.
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

func decodeArgs(obj runtime.Object) (Args, error) {
	if obj == nil {
		return Args{}, nil
	}
	text, ok := obj.(*runtime.Unknown)
	if !ok {
		return Args{}, fmt.Errorf("they are a %T, not text", obj)
	}
	// JSON is YAML, so this reads both. Double, unknown and miswritten fields (the
	// case of letters counts) are errors: they would be ignored otherwise.
	asJSON, err := yaml.YAMLToJSONStrict(text.Raw)
	if err != nil {
		return Args{}, err
	}
	var args Args
	miswritten, err := json.UnmarshalStrict(asJSON, &args)
	return args, errors.Join(append(miswritten, err)...)
}

// complete fills in defaults and refuses what makes no sense.
func (a *Args) complete() error {
	if a.ScoringStrategy == "" {
		a.ScoringStrategy = LeastAllocated
	}
	if a.MinSharedCPUs == nil {
		n := api.DefaultMinSharedCPUs
		a.MinSharedCPUs = &n
	}
	if a.AgentGracePeriod == nil {
		a.AgentGracePeriod = &metav1.Duration{Duration: DefaultAgentGracePeriod}
	}
	if a.AgentLeaseNamespace == "" {
		a.AgentLeaseNamespace = nodetopology.LeaseNamespace
	}
	var errs []error
	if a.APIVersion != "" && a.APIVersion != ArgsVersion {
		errs = append(errs, fmt.Errorf("apiVersion %q is not known, only %q is", a.APIVersion, ArgsVersion))
	}
	if a.Kind != "" && a.Kind != ArgsKind {
		errs = append(errs, fmt.Errorf("kind %q is not known, only %q is", a.Kind, ArgsKind))
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
