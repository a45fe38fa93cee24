package control

import (
	"math"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/kube/nri"
)

// Status is what follows from a decision that was carried out: what to read until the next one, and
// what to tell others. It contains everything that the agent does besides writing settings, and
// stays valid until the next decision.
type Status struct {
	// Hold is the reason why nothing is changed, or "".
	Hold string
	// Containers are the running containers. They are sampled, traced and shown in metrics.
	Containers []Limited
	// CoreSets are the paths of the containers that have core sets, whose usage these follow.
	CoreSets map[nodeplan.Ref]string
	// Created are the settings for the container that the runtime asked about; see [Control.Ask].
	Created nri.Settings
	Raises  Raises
	Batch   Batch
	Report  Report
}

// Raises are what the next tick must read to decide about raised quotas.
type Raises struct {
	// Possible is set if any quota may be raised. If not, the CPUs' idle time need not be read.
	Possible bool
	// Raised are the paths of the containers whose quota is raised.
	Raised []string
	// Behind are the paths of the pods of QoS class BestEffort that run behind all others. They give
	// way to all others at once, so the time that they use does not prevent raises.
	Behind []string
}

// Batch is about batch pods.
type Batch struct {
	// Mechanisms are what puts batch pods behind all others.
	Mechanisms colocation.Choice
	// Bounded is set if the CPU time of batch pods is to be bounded: then each tick must contain
	// what they use. Tier is the path of their tier, once the cgroups have been observed.
	Bounded bool
	Tier    string
	// Excluded are the paths of the cgroups whose usage is not that of others on the shared CPUs: the
	// tier of batch pods, and containers with exclusive CPUs. Online are those of the containers of
	// online pods (LS).
	Excluded, Online []string
	// Decision is the last one. It is the zero value without a bound.
	Decision colocation.Decision
	// Requested is what the running pods request, in thousandths of a CPU.
	Requested int64
	// Pods are the batch pods of QoS class BestEffort, and Others are the paths of all other pods. A
	// scheduler for batch work may run the former only: quotas do not bound what it runs, and pods of
	// other QoS classes may have limits.
	Pods   []BatchPod
	Others []string
	// Separate are the paths of the pods whose threads must have the core-scheduling cookie of batch
	// pods, and Together those of the pods whose threads must not.
	Separate, Together []string
}

// Capacity returns what the node offers to batch pods, in thousandths of a CPU: the decided
// capacity, but at least what the running pods request, because a kubelet that starts rejects pods
// that do not fit. Other pods do not count: everybody may bind a pod of any request to the node,
// which the kubelet then rejects. It returns false while nothing has been decided.
func (b *Batch) Capacity() (capacity int64, known bool) {
	return max(int64(milliCPU(b.Decision.Capacity)), b.Requested), b.Decision.Budget > 0
}

// Budget returns what all batch pods together may use, +Inf while nothing has been decided.
func (b *Batch) Budget() quantity.CPUs {
	if b.Decision.Budget == 0 {
		return quantity.CPUs(math.Inf(1))
	}
	return b.Decision.Budget
}

// Limited returns the containers that have a quota.
func (s *Status) Limited() (limited []Limited) {
	for i := range s.Containers {
		if s.Containers[i].Base.Quota != bandwidth.Unlimited {
			limited = append(limited, s.Containers[i])
		}
	}
	return limited
}

// status returns the status after the last decision.
func (c *Control) status() Status {
	s := Status{Hold: c.hold(), Report: c.report()}
	if s.Hold != "" {
		return s
	}
	s.CoreSets, s.Batch = c.coreSets, c.batchStatus()
	if c.asked != nil {
		s.Created = c.createSettings(*c.asked)
	}
	for i := range c.limited {
		l := c.limited[i]
		if l.isPod() || !c.exists(l.Path) {
			continue
		}
		l.Present, l.Raise = c.view.Settings[l.Path].Limits, c.raised[l.Path]
		s.Containers = append(s.Containers, l)
		s.Raises.Possible = s.Raises.Possible || c.mayRaise(&l)
		if l.Raise.Quota > 0 {
			s.Raises.Raised = append(s.Raises.Raised, l.Path)
		}
	}
	for _, p := range c.view.Pods {
		if p.Tier == nodeplan.BestEffort && isBehind(c.view.Settings[p.Path]) {
			s.Raises.Behind = append(s.Raises.Behind, p.Path)
		}
	}
	return s
}
