package control

import (
	"errors"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/agent/control/cpus"
	"pinfold.dev/pinfold/agent/control/node"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// Reasons of notices. Others are in package nodeplan, and in those of the controllers.
const (
	// DamagedTopology: files of the kernel about the machine are missing, damaged or contradictory.
	DamagedTopology = "DamagedTopology"
	// CannotWrite: the settings of a cgroup could not be written.
	CannotWrite = "CannotWrite"
	// CannotEnforce: no settings can be enforced on the node.
	CannotEnforce = "CannotEnforce"
)

// notices are what notices are made of besides the state.
type notices struct {
	machine  []string         // what is wrong with the machine's topology, and assumed instead
	failures map[string]error // of the last round, by path
	noticed  map[string]bool  // what was passed on by the last report
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
	Problems, Warnings, Notes, PodNotes []node.Notice
}

func (c *Control) summary() Summary {
	s := Summary{Exclusive: c.state.Plan.Exclusive, Shared: c.state.Plan.Shared, Containers: map[nodeplan.Home]int{}}
	for _, p := range c.state.Plan.Pods {
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
	for _, f := range c.state.Plan.Findings {
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
func (c *Control) split(notices []node.Notice) (ofNode, ofPods []node.Notice) {
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
func (c *Control) causedByPods(n node.Notice) bool {
	switch n.Reason {
	case string(nodeplan.Overflow): // too many requests of all pods together
		return true
	case cpus.CPUsUnavailable, cpus.NotPartitioned: // by the kernel
		return false
	}
	return n.Pod != nil && !c.Pods.IsStatic(n.Pod)
}

// Report is what to publish after a round.
type Report struct {
	Summary Summary
	// Events are the problems and notes that the last report did not contain.
	Events []node.Notice
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
	notices := slices.Concat(s.Problems, s.Warnings, s.Notes, s.PodNotes, c.Pods.AnnotationNotes(), c.quota.Notices(&c.state))
	return Report{s, c.notices.added(notices), condition(s.Problems, s.Notes)}
}

// Failed returns the report of a round that could not start because of err.
func (c *Control) Failed(err error) Report {
	problems := []node.Notice{{Reason: CannotEnforce, Message: "nothing can be enforced on this node: " + err.Error()}}
	return Report{Summary{Problems: problems}, c.notices.added(problems), condition(problems, nil)}
}

// problems returns the findings of the plan, invalid allocations, and cgroups that could not be
// written.
func (c *Control) problems() (all, notes []node.Notice) {
	for _, f := range c.state.Plan.Findings {
		n := c.Pods.NewNotice(f.Pod, string(f.Kind), f.Describe(c.Pods.NameOf))
		if f.IsNote() {
			notes = append(notes, n)
			continue
		}
		all = append(all, n)
	}
	ofCPUs, cpuNotes := c.cpus.Notices(&c.state)
	all = slices.Concat(all, c.Pods.Problems(), ofCPUs)
	for _, path := range slices.Sorted(maps.Keys(c.notices.failures)) {
		if err := c.notices.failures[path]; !errors.Is(err, ErrBlocked) {
			all = append(all, node.Notice{Reason: CannotWrite, Message: err.Error()})
		}
	}
	return all, slices.Concat(c.notices.ofMachine(), notes, c.Pods.NotStaticNotes(), cpuNotes, c.batch.Notes(c.state.View))
}

// ofMachine returns the notes about the machine's topology.
func (n *notices) ofMachine() (notes []node.Notice) {
	for _, note := range n.machine {
		notes = append(notes, node.Notice{Reason: DamagedTopology, Message: "topology: " + note})
	}
	return notes
}

// added returns the notices that were not passed to the last call.
func (n *notices) added(all []node.Notice) (added []node.Notice) {
	now := map[string]bool{}
	for _, notice := range all {
		key := notice.Reason + " " + notice.Message
		if notice.Pod != nil {
			key += " " + string(notice.Pod.UID)
		}
		if !n.noticed[key] && !now[key] {
			added = append(added, notice)
		}
		now[key] = true
	}
	n.noticed = now
	return added
}

// maxMessage is the length after which the condition's message is cut.
const maxMessage = 2000

func condition(problems, notes []node.Notice) corev1.NodeCondition {
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
