package history

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// Rule is a guarantee that Pinfold gives.
type Rule string

// Rules about one pod, and about all pods of a node.
const (
	Moved Rule = "moved" // a pod keeps what was allocated to it

	Exclusive Rule = "exclusive"  // no CPU belongs to two pods
	Reserved  Rule = "reserved"   // no pod has reserved CPUs
	MinShared Rule = "min-shared" // Options.MinSharedCPUs CPUs remain shared
	Requests  Rule = "requests"   // the requests for shared CPUs do not exceed the shared CPUs
	Confined  Rule = "confined"   // the same within the NUMA nodes of static-burst pods
)

// Violation is a rule that did not hold at a revision.
type Violation struct {
	Revision uint64
	Rule     Rule
	Message  string
}

func (v Violation) String() string {
	return fmt.Sprintf("revision %d: %s: %s", v.Revision, v.Rule, v.Message)
}

// Options are the scheduler's configuration.
type Options struct {
	MinSharedCPUs int
	// Stock is the schedulerName of another scheduler.
	Stock string
	// Leaders is set if several schedulers lead. Each may bind a pod before it knows of another's, and no
	// kubelet of a simulated node refuses what is too much: sums of requests are not checked.
	Leaders bool
}

// Report is the result of a check.
type Report struct {
	Violations []Violation
	// Allocated counts the pods to which agents have allocated CPUs, and HandedOver the CPUs that had
	// belonged to another pod before.
	Allocated, HandedOver int
	// Unserved are the pods that ran without CPUs although Pinfold's scheduler has predicted some.
	Unserved []string
	// Most is the largest number of pods with allocations at one time.
	Most int
	// Gaps are the recorder's gaps. Unchecked counts the events within gaps of pods.
	Gaps      []Event
	Events    int
	Unchecked int
}

func (r Report) String() string {
	return fmt.Sprintf("%d events, %d pods were allocated CPUs, %d predictions were wrong, %d CPUs handed over, at most %d pods with CPUs at a time; "+
		"%d gaps, %d events not checked", r.Events, r.Allocated, len(r.Unserved), r.HandedOver, r.Most, len(r.Gaps), r.Unchecked)
}

// checker is the state of the cluster at one revision.
type checker struct {
	options  Options
	report   Report
	reported map[string]bool // violations

	revision uint64
	pods     map[types.UID]*pod
	nodes    map[string]*node
	changed  map[string]bool // nodes to check
}

// node is the state of a node. It is kept when the node's objects are deleted, because the
// allocations of its pods remain valid.
type node struct {
	reserved     int64 // thousandths of a CPU: capacity less allocatable
	machine      *topology.Machine
	reservedCPUs cpuset.Set
	past         map[cpuset.CPU]types.UID // the pod to which a CPU last belonged
	published    api.Allocations
	publications int
	allocated    map[types.UID]cpuset.Set // the CPUs in it
}

// Check checks a history, whose events may be in any order. It returns an error if an object cannot
// be decoded.
func Check(events []Event, options Options) (Report, error) {
	c := &checker{options: options, reported: map[string]bool{}, pods: map[types.UID]*pod{}, nodes: map[string]*node{},
		changed: map[string]bool{}}
	events = sorted(events)
	for _, event := range events {
		if event.Type == Gap {
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
			c.checkNodes()
		}
	}
	for _, p := range c.pods {
		c.countUnserved(p)
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

// node returns the state of a node, which it creates if necessary.
func (c *checker) node(name string) *node {
	n := c.nodes[name]
	if n == nil {
		n = &node{past: map[cpuset.CPU]types.UID{}}
		c.nodes[name] = n
	}
	return n
}

// applyTopology keeps the last valid topology.
func (c *checker) applyTopology(event Event, object *nodetopology.NodeTopology) {
	if event.Type == Deleted {
		return
	}
	if machine, state, err := nodetopology.ToMachine(object); err == nil {
		n := c.node(object.Name)
		n.machine, n.reservedCPUs = machine, state.ReservedCPUs
		c.applyAllocations(object.Name, n, state.Allocations)
	}
}

// violation reports a violation, once.
func (c *checker) violation(rule Rule, format string, args ...any) {
	v := Violation{c.revision, rule, fmt.Sprintf(format, args...)}
	if id := string(rule) + v.Message; !c.reported[id] {
		c.reported[id] = true
		c.report.Violations = append(c.report.Violations, v)
	}
}

// checkNodes checks the nodes that have changed.
func (c *checker) checkNodes() {
	for _, name := range slices.Sorted(maps.Keys(c.changed)) {
		c.checkNode(name)
	}
	clear(c.changed)
	with := 0
	for _, p := range c.pods {
		if n := c.nodes[p.Spec.NodeName]; n != nil {
			if _, ok := n.published[p.UID]; ok {
				with++
			}
		}
	}
	c.report.Most = max(c.report.Most, with)
}
