package control

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// BadAllocation is the reason of a notice about a pod with an invalid allocation. The scheduler
// uses the same reason.
const BadAllocation = "CPUAllocationInvalid"

// Notice is a message for users.
type Notice struct {
	// Pod is nil when it is about the node.
	Pod             *corev1.Pod
	Reason, Message string
}

// About returns a notice about a pod, or about the node if the pod is unknown.
func (c *Control) About(id ledger.PodID, reason, message string) Notice {
	n := Notice{Reason: reason, Message: message}
	if s := c.pod(id); s != nil {
		n.Pod = s.object
	}
	return n
}

// Summary is how things are, for the node's condition and for metrics.
type Summary struct {
	Exclusive, Shared cpuset.Set
	// Containers counts running containers by where they live.
	Containers map[nodeplan.Home]int
	// Quality is the sum over the containers that have exclusive CPUs.
	Quality placement.Quality
	// Conflicts is how many pods lost their CPUs to others.
	Conflicts int
	// Problems is everything that cannot be done, in words, and Notes what is done in
	// another way than it was asked for.
	Problems, Notes []Notice
}

func (c *Control) summary() Summary {
	d := c.desired.Desired
	s := Summary{Exclusive: d.Exclusive, Shared: d.Shared, Containers: map[nodeplan.Home]int{}}
	for _, p := range d.Pods {
		for _, container := range p.Containers {
			if !container.Running {
				continue
			}
			s.Containers[container.Home]++
			if container.Home == nodeplan.HomeExclusive {
				q := c.index.Quality(container.CPUs)
				s.Quality.NUMANodes += q.NUMANodes
				s.Quality.SplitCores += q.SplitCores
				s.Quality.LLCs += q.LLCs
			}
		}
	}
	for _, f := range d.Findings {
		if f.Kind == nodeplan.Conflict {
			s.Conflicts++
		}
	}
	s.Problems, s.Notes = c.problemsOf(d)
	return s
}

// Report is what to publish after a round.
type Report struct {
	Summary Summary
	// Events are the problems and notes that were not there in the last report.
	Events []Notice
	// Condition has no times: equal situations give equal conditions.
	Condition corev1.NodeCondition
}

// Report returns the state of the node after the last decision was applied.
func (c *Control) Report() Report {
	if hold := c.hold(); hold != "" {
		return Report{Condition: corev1.NodeCondition{Type: nodetopology.BindingCondition, Status: corev1.ConditionUnknown, Reason: "Waiting",
			Message: "nothing is changed, and what was set before stays in force: " + hold}}
	}
	s := c.summary()
	return Report{s, c.fresh(slices.Concat(s.Problems, s.Notes, c.aboutWords(c.now))), condition(s.Problems, s.Notes)}
}

// problemsOf are the findings of the plan, the allocations that cannot be believed, and
// the groups that could not be written.
func (c *Control) problemsOf(d nodeplan.Desired) (all, notes []Notice) {
	for _, f := range d.Findings {
		n := c.About(f.Pod, string(f.Kind), f.Describe(c.podName))
		if f.IsNote() {
			notes = append(notes, n)
			continue
		}
		all = append(all, n)
	}
	for i := range c.pods {
		if s := &c.pods[i]; s.problem != nil {
			all = append(all, Notice{s.object, BadAllocation, fmt.Sprintf("pod %s: %v", c.podName(s.plan.ID), s.problem)})
		}
	}
	for _, path := range slices.Sorted(maps.Keys(c.problems)) {
		if err := c.problems[path]; !errors.Is(err, ErrBlocked) {
			all = append(all, Notice{Reason: "CannotWrite", Message: err.Error()})
		}
	}
	return all, slices.Concat(notes, c.notStatic(), c.unknownGroups())
}

// podName writes a pod as users know it.
func (c *Control) podName(id ledger.PodID) string {
	if s := c.pod(id); s != nil {
		return s.object.Namespace + "/" + s.object.Name
	}
	return string(id)
}

// fresh are the problems that were not there before.
func (c *Control) fresh(problems []Notice) []Notice {
	var fresh []Notice
	now := map[string]bool{}
	for _, n := range problems {
		key := n.Reason + " " + n.Message
		if n.Pod != nil {
			key += " " + string(n.Pod.UID)
		}
		if !c.noticed[key] && !now[key] {
			fresh = append(fresh, n)
		}
		now[key] = true
	}
	c.noticed = now
	return fresh
}

// maxMessage keeps the message of the condition readable.
const maxMessage = 2000

// CannotEnforce is the reason of the notice that the agent cannot enforce any settings.
const CannotEnforce = "CannotEnforce"

// Unable returns the report of a round that could not start because of err.
func (c *Control) Unable(err error) Report {
	problems := []Notice{{Reason: CannotEnforce, Message: "nothing can be enforced on this node: " + err.Error()}}
	return Report{Summary{Problems: problems}, c.fresh(problems), condition(problems, nil)}
}

func condition(problems, notes []Notice) corev1.NodeCondition {
	c := corev1.NodeCondition{Type: nodetopology.BindingCondition, Status: corev1.ConditionTrue, Reason: "Enforced"}
	var lines []string
	if len(problems) > 0 {
		c.Status, c.Reason = corev1.ConditionFalse, problems[0].Reason
	} else {
		lines = []string{"containers run on the CPUs that they were given"}
	}
	for _, p := range slices.Concat(problems, notes) {
		if p.Reason != string(nodeplan.NotBound) { // the same for every pod
			lines = append(lines, p.Message)
		}
	}
	c.Message = strings.Join(lines, "; ")
	if len(c.Message) > maxMessage {
		c.Message = c.Message[:maxMessage] + " ..."
	}
	return c
}

// Topology returns the topology object to publish for the node, or nil while too little is known.
// health is nodetopology.AgentHealthy or a description of the problem.
func (c *Control) Topology(health string) (*v1alpha2.NodeResourceTopology, error) {
	if c.index == nil || c.node.UID == "" {
		return nil, nil //nolint:nilnil // nothing to publish yet is no failure
	}
	state := nodetopology.State{AgentHealth: health, AgentLease: c.config.Lease}
	if c.kubelet != nil {
		state.KubeletPolicy, state.ReservedCPUs = c.kubelet.CPUManagerPolicy, c.kubelet.ReservedCPUs
	}
	object, err := nodetopology.FromMachine(c.config.NodeName, c.machine(), state)
	if err != nil {
		return nil, err
	}
	nodetopology.OwnedByNode(object, c.node.UID)
	return object, nil
}
