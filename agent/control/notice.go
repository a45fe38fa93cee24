package control

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// Reasons of notices. Others are in package nodeplan.
const (
	// BadAllocation: a pod's allocation is invalid. The scheduler uses the same reason.
	BadAllocation = "CPUAllocationInvalid"
	// UnknownGroup: a cgroup in a pod's cgroup has a name that is not a container's.
	UnknownGroup = "UnknownGroup"
	// IdleTier: another program has given idle priority to the tier of batch pods.
	IdleTier = "IdleTier"
	// LackingMechanism: the machine lacks a mechanism that is to put batch pods behind all others.
	LackingMechanism = "LackingMechanism"
	// DamagedTopology: files of the kernel about the machine are missing, damaged or contradictory.
	DamagedTopology = "DamagedTopology"
	// CannotWrite: the settings of a cgroup could not be written.
	CannotWrite = "CannotWrite"
	// CannotEnforce: no settings can be enforced on the node.
	CannotEnforce = "CannotEnforce"
)

// Notice is a message for users.
type Notice struct {
	// Pod is nil if the notice is about the node.
	Pod             *corev1.Pod
	Reason, Message string
}

// NewNotice returns a notice about a pod, or about the node if the pod is unknown.
func (c *Control) NewNotice(id ledger.PodID, reason, message string) Notice {
	n := Notice{Reason: reason, Message: message}
	if s := c.pod(id); s != nil {
		n.Pod = s.object
	}
	return n
}

// Summary is the state of the node, for its condition and for metrics.
type Summary struct {
	Exclusive, Shared cpuset.Set
	// Containers counts running containers by the kind of CPUs that they run on.
	Containers map[nodeplan.Home]int
	// Quality is the sum over the containers that have exclusive CPUs.
	Quality placement.Quality
	// Conflicts is the number of pods that lost their CPUs to other pods.
	Conflicts int
	// Problems say what is wrong with the node, and make its condition False. Notes, which the
	// condition repeats, say what is done differently there than requested. Warnings and PodNotes
	// are the same about what authors of pods can cause: the condition must not depend on them.
	Problems, Warnings, Notes, PodNotes []Notice
}

func (c *Control) summary() Summary {
	s := Summary{Exclusive: c.plan.Exclusive, Shared: c.plan.Shared, Containers: map[nodeplan.Home]int{}}
	for _, p := range c.plan.Pods {
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
	for _, f := range c.plan.Findings {
		if f.Kind == nodeplan.Conflict {
			s.Conflicts++
		}
	}
	problems, notes := c.problems()
	s.Problems, s.Warnings = c.split(problems)
	s.Notes, s.PodNotes = c.split(notes)
	return s
}

// split separates notices about the node from those that authors of pods can cause.
func (c *Control) split(notices []Notice) (ofNode, ofPods []Notice) {
	for _, n := range notices {
		if c.causedByPods(n) {
			ofPods = append(ofPods, n)
		} else {
			ofNode = append(ofNode, n)
		}
	}
	return ofNode, ofPods
}

// causedByPods reports whether everybody who may write pods can cause a notice. The authors of
// static pods can write files of the node.
func (c *Control) causedByPods(n Notice) bool {
	switch n.Reason {
	case string(nodeplan.Overflow): // too many requests of all pods together
		return true
	case CPUsUnavailable, NotPartitioned: // by the kernel
		return false
	}
	return n.Pod != nil && c.groupID(n.Pod) == ledger.PodID(n.Pod.UID)
}

// Report is what to publish after a round.
type Report struct {
	Summary Summary
	// Events are the problems and notes that the last report did not contain.
	Events []Notice
	// Condition has no times, so equal situations give equal conditions.
	Condition corev1.NodeCondition
}

// report returns the state of the node after the last decision was applied.
func (c *Control) report() Report {
	if hold := c.hold(); hold != "" {
		return Report{Condition: corev1.NodeCondition{Type: nodetopology.BindingCondition, Status: corev1.ConditionUnknown, Reason: "Waiting",
			Message: "nothing is changed, and what was set before stays in force: " + hold}}
	}
	s := c.summary()
	notices := slices.Concat(s.Problems, s.Warnings, s.Notes, s.PodNotes, c.annotationNotices(c.now))
	return Report{s, c.newNotices(notices), condition(s.Problems, s.Notes)}
}

// Failed returns the report of a round that could not start because of err.
func (c *Control) Failed(err error) Report {
	problems := []Notice{{Reason: CannotEnforce, Message: "nothing can be enforced on this node: " + err.Error()}}
	return Report{Summary{Problems: problems}, c.newNotices(problems), condition(problems, nil)}
}

// problems returns the findings of the plan, invalid allocations, and cgroups that could not be
// written.
func (c *Control) problems() (all, notes []Notice) {
	for _, f := range c.plan.Findings {
		n := c.NewNotice(f.Pod, string(f.Kind), f.Describe(c.podName))
		if f.IsNote() {
			notes = append(notes, n)
			continue
		}
		all = append(all, n)
	}
	for i := range c.pods {
		if s := &c.pods[i]; s.problem != nil {
			all = append(all, Notice{s.object, BadAllocation, fmt.Sprintf("pod %s: %v", s.name(), s.problem)})
		}
	}
	all = append(all, c.unavailableNotices()...)
	for _, path := range slices.Sorted(maps.Keys(c.failures)) {
		if err := c.failures[path]; !errors.Is(err, ErrBlocked) {
			all = append(all, Notice{Reason: CannotWrite, Message: err.Error()})
		}
	}
	return all, slices.Concat(c.machineNotices(), notes, c.notStaticNotes(), c.unknownGroupNotes(), c.partitionNotes(), c.idleTierNotes(), c.lackingNotes())
}

// machineNotices returns the notes about the machine's topology.
func (c *Control) machineNotices() (notes []Notice) {
	for _, note := range c.machineNotes {
		notes = append(notes, Notice{Reason: DamagedTopology, Message: "topology: " + note})
	}
	return notes
}

// unknownGroupNotes returns the notes about cgroups in pods whose names are not containers', except
// CRI-O's monitor.
func (c *Control) unknownGroupNotes() (notes []Notice) {
	if c.view == nil || c.kubelet == nil || !c.binds() {
		return nil
	}
	for _, pod := range c.view.Pods {
		for _, other := range pod.Others {
			if isMonitor(other) {
				continue
			}
			message := fmt.Sprintf("the name of cgroup %s is not a container's. ", other)
			if s, ok := c.view.Settings[other]; ok {
				message += fmt.Sprintf("Everything in it runs on CPUs %s; if containers of the pod run in it, their own quota is not enforced",
					cpusText(s.CPUs))
			} else {
				message += "It has no CPUs of its own and uses those of its pod"
			}
			notes = append(notes, c.NewNotice(ledger.PodID(pod.UID), UnknownGroup, message))
		}
	}
	return notes
}

// podName returns NAMESPACE/NAME, or the id of an unknown pod.
func (c *Control) podName(id ledger.PodID) string {
	if s := c.pod(id); s != nil {
		return s.name()
	}
	return string(id)
}

// newNotices returns the notices that were not passed to the last call.
func (c *Control) newNotices(notices []Notice) (added []Notice) {
	now := map[string]bool{}
	for _, n := range notices {
		key := n.Reason + " " + n.Message
		if n.Pod != nil {
			key += " " + string(n.Pod.UID)
		}
		if !c.noticed[key] && !now[key] {
			added = append(added, n)
		}
		now[key] = true
	}
	c.noticed = now
	return added
}

// maxMessage is the length after which the condition's message is cut.
const maxMessage = 2000

func condition(problems, notes []Notice) corev1.NodeCondition {
	c := corev1.NodeCondition{Type: nodetopology.BindingCondition, Status: corev1.ConditionTrue, Reason: "Enforced"}
	var lines []string
	if len(problems) > 0 {
		c.Status, c.Reason = corev1.ConditionFalse, problems[0].Reason
	} else {
		lines = []string{"containers run on the CPUs that they were given"}
	}
	for _, n := range slices.Concat(problems, notes) {
		lines = append(lines, n.Message)
	}
	c.Message = strings.Join(lines, "; ")
	if len(c.Message) > maxMessage {
		c.Message = strings.ToValidUTF8(c.Message[:maxMessage], "") + " ..."
	}
	return c
}
