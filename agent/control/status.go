package control

import (
	"math"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/agent/control/batch"
	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/agent/control/quota"
	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/qos"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nri"
)

// Status is what follows from a decision that was carried out: what to read until the next one, and
// what to tell others. It contains everything that the agent does besides writing settings, and
// stays valid until the next decision. A tick replaces the decision about batch pods.
type Status struct {
	// Hold is the reason why nothing is changed, or "".
	Hold string
	// Machine has no CPUs that pods may not use. It is nil while it is not known.
	Machine *topology.Machine
	// Withheld are the online CPUs that pods may not use.
	Withheld cpuset.Set
	// Allocations are what the agent has allocated to pods and saved. Settled is set once what an earlier
	// agent has allocated has been compared with the kernel, as far as this agent will.
	Allocations api.Allocations
	Settled     bool
	// Containers are the running containers. They are sampled, traced and shown in metrics.
	Containers []Limited
	// CoreSets are the paths of the containers that have core sets, whose usage these follow.
	CoreSets map[nodeplan.Ref]string
	// Created are the settings for the container that the runtime asked about; see [Control.Ready].
	Created nri.Settings
	// Refused is why that container must not be created, or nil.
	Refused error
	// Waiting is set while changed annotations wait for the next decision.
	Waiting bool
	Raises  Raises
	Batch   Batch
	Report  Report
}

// Limited is the cgroup of a container whose bandwidth is planned.
type Limited struct {
	Ref             nodeplan.Ref
	Namespace, Name string // of the pod
	Workload        string // that made the pod: its kind and name
	Path            string
	nodeplan.Raising
	// Present is the bandwidth of the cgroup, and Raise is the zero value if the quota is not raised.
	Present bandwidth.Limits
	Raise   quota.Raise
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

// BatchPod is a running batch pod.
type BatchPod struct {
	Namespace, Name, Path string
	// Request is its request of pinfold.dev/batch-cpu, in thousandths of a CPU.
	Request int64
}

// Capacity returns what the node offers to batch pods, in thousandths of a CPU: the decided
// capacity, but at least what the running pods request, because a kubelet that starts rejects pods
// that do not fit. Other pods do not count: everybody may bind a pod of any request to the node,
// which the kubelet then rejects. It returns false while nothing has been decided.
func (b *Batch) Capacity() (capacity int64, known bool) {
	return max(int64(batch.MilliCPU(b.Decision.Capacity)), b.Requested), b.Decision.Budget > 0
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
	r := &c.round
	s := Status{Hold: c.hold(), Report: c.report()}
	if c.addNode(&s); s.Hold != "" {
		return s
	}
	s.Waiting = len(c.quota.Prepare(r)) > 0
	s.CoreSets, s.Batch = map[nodeplan.Ref]string{}, c.batchStatus()
	for ref := range r.Plan.CoreSets.Sets {
		if path, ok := r.Container[ref]; ok {
			s.CoreSets[ref] = path
		}
	}
	for _, ref := range c.asked {
		s.Created = c.createSettings(ref)
		if pod := c.Pods.Get(ref.Pod); pod != nil && !c.config.Observe {
			s.Refused = c.allocate.Refused(pod.Object.UID, c.config.Refuses)
		}
	}
	for i := range r.Planned {
		l := &r.Planned[i]
		if l.IsPod() || !r.Exists(l.Path) {
			continue
		}
		raise := c.quota.Raise(l.Path)
		s.Containers = append(s.Containers, Limited{l.Ref, l.Pod.Object.Namespace, l.Pod.Object.Name, l.Pod.Workload(), l.Path, *l.Raising, r.Settings[l.Path].Limits, raise})
		s.Raises.Possible = s.Raises.Possible || c.quota.MayRaise(r.Groups, l)
		if raise.Quota > 0 {
			s.Raises.Raised = append(s.Raises.Raised, l.Path)
		}
	}
	for _, p := range r.View.Pods {
		if p.Tier == qos.BestEffort && groups.IsBehind(r.Settings[p.Path]) {
			s.Raises.Behind = append(s.Raises.Behind, p.Path)
		}
	}
	return s
}

// addNode adds the machine and what is allocated.
func (c *Control) addNode(s *Status) {
	s.Allocations = c.allocate.InForce()
	s.Settled = c.allocate.Recovered() || len(s.Allocations) == 0 || c.hold() == "" && !c.round.Binds
	if c.round.Index != nil {
		s.Machine, s.Withheld = c.round.Index.Machine(), c.round.Withheld
	}
}

// batchStatus returns what is known about batch pods after a decision.
func (c *Control) batchStatus() Batch {
	r := &c.round
	b := Batch{Mechanisms: c.batch.Mechanisms(r.Groups), Bounded: c.batch.Bounded(), Tier: r.BatchTier(), Decision: c.batch.Decision}
	b.Excluded = []string{b.Tier}
	for path, cpus := range c.cpus.Exclusive() {
		if !cpus.IsEmpty() {
			b.Excluded = append(b.Excluded, path)
		}
	}
	for i := range c.Pods.All {
		if pod := c.Pods.All[i].Object; pod.Status.Phase == corev1.PodRunning && !c.Pods.All[i].Departed {
			b.Requested += api.BatchRequest(pod)
		}
	}
	for i := range r.Planned {
		l := &r.Planned[i]
		switch {
		case !l.IsPod():
			if l.Class == qos.LS && r.Exists(l.Path) {
				b.Online = append(b.Online, l.Path)
			}
			continue
		case l.IsBatch():
			pod := l.Pod.Object
			b.Pods = append(b.Pods, BatchPod{pod.Namespace, pod.Name, l.Path, api.BatchRequest(pod)})
		default:
			b.Others = append(b.Others, l.Path)
		}
		if l.Separate {
			b.Separate = append(b.Separate, l.Path)
		} else {
			b.Together = append(b.Together, l.Path)
		}
	}
	return b
}

// createSettings returns the settings with which a container is to be created. It contains a quota
// only if that differs from the kubelet's, so that other plugins may set the quota of all other
// containers.
func (c *Control) createSettings(ref nodeplan.Ref) nri.Settings {
	container, kubelet := c.round.PlanOf(ref)
	cpus, planned := c.cpus.Create(&c.round, ref.Pod, container)
	settings := nri.Settings{CPUs: cpus}
	if !planned {
		return settings
	}
	// Not a raised quota: the runtime would report it, and the kubelet would take it for the limit.
	if l := container.Base.WithoutBurst(); l != kubelet {
		settings.Quota, settings.Period = l.Quota, l.Period
		if l.Quota == bandwidth.Unlimited {
			settings.Period = 0
		}
	}
	return settings
}
