package control

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/agent/control/pods"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/qos"
	"pinfold.dev/pinfold/kube/api"
)

// notices returns what users should know, the problems in the order of the condition.
func (c *Control) notices() (n groups.Notices) {
	for _, note := range c.node.notes {
		n.Note(nil, groups.DamagedTopology, "topology: %s", note)
	}
	if withheld := c.node.allowed.notes; len(withheld) > 0 {
		n.Note(nil, groups.Withheld, "%s", strings.Join(withheld, "; "))
	}
	if quota := c.node.allowed.quota; quota != "" {
		n.Problem(nil, groups.Throttled, "%s", quota)
	}
	for _, f := range c.round.Plan.Findings {
		add := n.Problem
		if f.IsNote() {
			add = n.Note
		}
		add(c.Pods.Get(f.Pod), string(f.Kind), "%s", f.Describe(func(id ledger.PodID) string { return pods.NameOf(c.Pods.All, id) }))
	}
	for i := range c.Pods.All {
		s := &c.Pods.All[i]
		if id := s.Forged(); id != "" { // not a problem: it harms no other pod
			n.Note(s, groups.NotAStaticPod, "pod %s has the annotations of a mirror pod, but the kubelet runs no such static pod: "+
				"the pod gets nothing of cgroup %s", s.Name(), id)
		}
	}
	if c.hold() == "" {
		for _, k := range c.controllers {
			k.Notices(&c.round, &n)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(c.failures)) {
		if err := c.failures[path]; !errors.Is(err, ErrBlocked) {
			n.Problem(nil, groups.CannotWrite, "%v", err)
		}
	}
	c.tellAuthors(&n)
	return n
}

// tellAuthors adds what is wrong with the annotations of pods.
func (c *Control) tellAuthors(n *groups.Notices) {
	for i := range c.Pods.All {
		s := &c.Pods.All[i]
		for _, message := range s.AboveCeiling {
			n.Tell(s, groups.AboveCeiling, "%s", message)
		}
		for _, message := range s.Unknown {
			n.Tell(s, groups.UnknownKey, "%s", message)
		}
		for _, message := range s.Ignored {
			if problem := c.allocate.Problem(s.Object.UID); problem == nil || !strings.Contains(problem.Error(), message) {
				n.Tell(s, groups.Ignored, "%s", message)
			}
		}
		if s.Annotations.Class == qos.BE && c.config.Priority.IsNone() && c.config.Batch.Threshold == 0 && !s.Departed {
			n.Tell(s, groups.Ignored, "label %s: %s does not put the pod behind others on this node, whose agent runs without --batch-priority and --batch-percent: "+
				"give it one of them (chart: agent.batchPriority, agent.batchPercent), or remove the label", api.QoSLabel, qos.BE)
		}
	}
}
