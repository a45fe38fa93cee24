package control

import (
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
	// AboveCeiling: a pod asks for more than the administrator allows.
	AboveCeiling = "AboveCeiling"
	// UnknownKey: an annotation or label has no effect and may be misspelled.
	UnknownKey = "UnknownAnnotation"
	// Ignored: an annotation or label cannot be read, so none of the pod's has an effect, or it has none
	// together with the others. The scheduler uses the same reason.
	Ignored = "CPUAnnotationIgnored"
	// Postponed: changed annotations have no effect yet.
	Postponed = "ChangePostponed"
	// NotAStaticPod: a pod claims to be the copy of a static pod that the kubelet does not run.
	NotAStaticPod = "NotAStaticPod"
	// CPUsUnavailable: a container does not run on all CPUs that its cgroup has. Version 2 accepts any
	// CPUs, and uses those that are online, in the groups above, and in no partition of another group.
	CPUsUnavailable = "CPUsUnavailable"
	// Pinned: the threads of a container run on a part of its CPUs only.
	Pinned = "ThreadsPinned"
	// NotPartitioned: a container could not become a partition.
	NotPartitioned = "NotPartitioned"
	// BadAllocation: a pod's allocation is invalid. The scheduler uses the same reason.
	BadAllocation = "CPUAllocationInvalid"
	// NotGiven: the agent could not give a pod the CPUs that it asks for.
	NotGiven = "CPUsNotGiven"
	// GivenBack: a pod can never start, so a resource claim of it serves others.
	GivenBack = "ClaimGivenBack"
	// Lost: a pod has lost its CPUs to another one, or because the node does not have them any more.
	Lost = "CPUsLost"
	// Withheld: pods may not use all CPUs of the machine.
	Withheld = "CPUsWithheld"
	// Throttled: a group above pods has a quota below the CPUs that these may use.
	Throttled = "PodsThrottled"
	// DamagedState: what an agent has saved is lost, old, or of another node.
	DamagedState = "DamagedState"
	// Moved: a running pod was moved to better CPUs. This is not a problem.
	Moved = "CPUsMoved"
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

// IsNews reports whether nothing is wrong.
func (n Notice) IsNews() bool { return n.Reason == Moved || n.Reason == Pinned }

// NewNotice returns a notice about a pod, or about the node if the pod is unknown.
func (c *Control) NewNotice(id ledger.PodID, reason, message string) Notice {
	n := Notice{Reason: reason, Message: message}
	if s := c.Get(id); s != nil {
		n.Pod = s.Object
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
	s := Summary{Exclusive: c.round.Plan.Exclusive, Shared: c.round.Plan.Shared, Containers: map[nodeplan.Home]int{}}
	for _, p := range c.round.Plan.Pods {
		for _, container := range p.Containers {
			if !container.Running {
				continue
			}
			s.Containers[container.Home]++
			if container.Home == nodeplan.HomeExclusive {
				q := c.node.index.Quality(container.CPUs)
				s.Quality.NUMANodes += q.NUMANodes
				s.Quality.SplitCores += q.SplitCores
				s.Quality.LLCs += q.LLCs
			}
		}
	}
	for _, f := range c.round.Plan.Findings {
		if f.Kind == nodeplan.Conflict {
			s.Conflicts++
		}
	}
	problems, notes := c.problems()
	s.Problems, s.Warnings = c.split(problems)
	s.Notes, s.PodNotes = c.split(notes)
	return s
}

// split separates notices about the node from those that everybody who may write pods can cause.
func (c *Control) split(notices []Notice) (ofNode, ofPods []Notice) {
	for _, n := range notices {
		tenants := n.Pod != nil && c.CanBeForged(n.Pod)
		switch n.Reason {
		case string(nodeplan.Overflow): // too many requests of all pods together
			tenants = true
		case CPUsUnavailable, NotPartitioned: // caused by the kernel
			tenants = false
		}
		if tenants {
			ofPods = append(ofPods, n)
		} else {
			ofNode = append(ofNode, n)
		}
	}
	return ofNode, ofPods
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
	notices := slices.Concat(s.Problems, s.Warnings, s.Notes, s.PodNotes, c.podNotices())
	problems := s.Problems
	if c.config.Observe { // not a problem, but nothing is enforced
		problems = append([]Notice{{Reason: nodetopology.Observing, Message: "nothing is enforced on this node: " + observing}}, problems...)
	}
	return Report{s, c.noticed.update(notices), condition(problems, s.Notes)}
}

// Failed returns the report of a round that could not start because of err.
func (c *Control) Failed(err error) Report {
	problems := []Notice{{Reason: CannotEnforce, Message: "nothing can be enforced on this node: " + err.Error()}}
	return Report{Summary{Problems: problems}, c.noticed.update(problems), condition(problems, nil)}
}

// noticed are the notices of the last report.
type noticed map[string]bool

// update replaces the notices, and returns those that are new.
func (last *noticed) update(notices []Notice) (added []Notice) {
	now := noticed{}
	for _, n := range notices {
		key := n.Reason + " " + n.Message
		if n.Pod != nil {
			key += " " + string(n.Pod.UID)
		}
		if !(*last)[key] && !now[key] {
			added = append(added, n)
		}
		now[key] = true
	}
	*last = now
	return added
}

// observing is why nothing is enforced.
const observing = "the agent observes (--mode=observe)"

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
