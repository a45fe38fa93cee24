package history

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/admission"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// Rule is a promise that can be broken.
type Rule string

// Rules about one pod, and about all pods of a node.
const (
	Edited    Rule = "edited"    // the allocation of a bound pod does not change
	Rebound   Rule = "rebound"   // nor does its node
	Elsewhere Rule = "elsewhere" // the allocation is for the node to which the pod was bound
	Invalid   Rule = "invalid"   // the allocation goes with the pod
	Unplaced  Rule = "unplaced"  // who asks is not bound without CPUs

	Exclusive Rule = "exclusive"  // no CPU is two pods'
	Reserved  Rule = "reserved"   // reserved CPUs are nobody's
	MinShared Rule = "min-shared" // so many CPUs stay shared
	Requests  Rule = "requests"   // what is requested of the shared CPUs is there
	Confined  Rule = "confined"   // and so it is in the NUMA nodes of static-burst pods
	Limit     Rule = "limit"      // which have as many shared CPUs as a container may use
)

// Violation is a broken promise.
type Violation struct {
	Revision uint64
	Rule     Rule
	Message  string
}

func (v Violation) String() string {
	return fmt.Sprintf("revision %d: %s: %s", v.Revision, v.Rule, v.Message)
}

// Options are what the scheduler is configured with.
type Options struct {
	MinSharedCPUs int
}

// Report is what a history shows.
type Report struct {
	Violations []Violation
	// Decisions are pods that were given CPUs by the scheduler, HandedOver the CPUs
	// among those that had been another pod's before.
	Decisions, HandedOver int
	// Most is the largest number of pods that had CPUs of their own at one time.
	Most int
	// Gaps are what the recorder missed, Unchecked the events while pods were missed.
	Gaps      []Event
	Events    int
	Unchecked int
}

func (r Report) String() string {
	return fmt.Sprintf("%d events, %d decisions about CPUs, %d CPUs handed over, at most %d pods with CPUs at a time; "+
		"%d gaps, %d events not checked", r.Events, r.Decisions, r.HandedOver, r.Most, len(r.Gaps), r.Unchecked)
}

// checker is the cluster at one revision.
type checker struct {
	options Options
	report  Report
	told    map[string]bool // violations that have been reported

	revision    uint64
	pods        map[types.UID]*pod
	nodes       map[string]*node
	unprotected map[string]bool // namespaces
	changed     map[string]bool // nodes to be looked at
}

// node is what is known of a node. It stays known when its objects go: the allocations
// of its pods still count.
type node struct {
	reserved     int64 // thousandths of a CPU: capacity less what can be allocated
	machine      *topology.Machine
	reservedCPUs cpuset.Set
	past         map[cpuset.CPU]types.UID // who had a CPU last
}

// Check goes through a history, in any order of events. An error says that it cannot be
// read.
func Check(events []Event, options Options) (Report, error) {
	c := &checker{options: options, told: map[string]bool{}, pods: map[types.UID]*pod{}, nodes: map[string]*node{},
		unprotected: map[string]bool{}, changed: map[string]bool{}}
	events = sorted(events)
	for _, event := range events {
		if event.Type == Gap && event.Kind != Lease {
			c.report.Gaps = append(c.report.Gaps, event)
		}
	}
	for i, event := range events {
		c.revision = event.Revision
		if err := c.apply(event); err != nil {
			return c.report, fmt.Errorf("%s at revision %d: %w", event.Kind, event.Revision, err)
		}
		switch last := i == len(events)-1; {
		case c.inGap(Pod, event.Revision):
			c.report.Unchecked++
		case last || events[i+1].Revision != event.Revision:
			c.look()
		}
	}
	c.report.Events = len(events)
	return c.report, nil
}

// inGap reports whether changes of a kind may be missing just before a revision.
func (c *checker) inGap(kind Kind, revision uint64) bool {
	return slices.ContainsFunc(c.report.Gaps, func(gap Event) bool {
		return gap.Kind == kind && gap.From < revision && revision < gap.Revision
	})
}

func (c *checker) apply(event Event) error {
	if event.Type == Gap {
		return nil
	}
	switch event.Kind {
	case Pod:
		return decoded(event, c.applyPod)
	case Node:
		return decoded(event, func(_ Event, object *corev1.Node) {
			n := c.node(object.Name)
			n.reserved = max(0, object.Status.Capacity.Cpu().MilliValue()-object.Status.Allocatable.Cpu().MilliValue())
		})
	case Topology:
		return decoded(event, c.applyTopology)
	case Namespace:
		return decoded(event, func(_ Event, object *corev1.Namespace) {
			c.unprotected[object.Name] = object.Labels[admission.UnprotectedLabel] == "true"
		})
	case Lease:
	}
	return nil
}

func decoded[T any](event Event, apply func(Event, *T)) error {
	object := new(T)
	if err := json.Unmarshal(event.Object, object); err != nil {
		return err
	}
	apply(event, object)
	return nil
}

// node returns what is known of a node.
func (c *checker) node(name string) *node {
	n := c.nodes[name]
	if n == nil {
		n = &node{past: map[cpuset.CPU]types.UID{}}
		c.nodes[name] = n
	}
	return n
}

// applyTopology keeps the last topology that could be read.
func (c *checker) applyTopology(event Event, object *v1alpha2.NodeResourceTopology) {
	if event.Type == Deleted {
		return
	}
	if machine, state, err := nodetopology.ToMachine(object); err == nil {
		n := c.node(object.Name)
		n.machine, n.reservedCPUs = machine, state.ReservedCPUs
	}
}

// violation reports what is wrong, once.
func (c *checker) violation(rule Rule, format string, args ...any) {
	v := Violation{c.revision, rule, fmt.Sprintf(format, args...)}
	if id := string(rule) + v.Message; !c.told[id] {
		c.told[id] = true
		c.report.Violations = append(c.report.Violations, v)
	}
}

// look compares the pods of the nodes that have changed.
func (c *checker) look() {
	for _, name := range slices.Sorted(maps.Keys(c.changed)) {
		c.checkNode(name)
	}
	clear(c.changed)
	with := 0
	for _, p := range c.pods {
		if p.counts() && len(p.claim.Containers) > 0 {
			with++
		}
	}
	c.report.Most = max(c.report.Most, with)
}
