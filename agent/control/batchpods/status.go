package batchpods

import (
	"math"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/agent/control/node"
	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/kube/api"
)

// Pod is a running batch pod.
type Pod struct {
	Namespace, Name, Path string
	// Request is its request of pinfold.dev/batch-cpu, in thousandths of a CPU.
	Request int64
}

// Status is about batch pods, after a decision.
type Status struct {
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
	Pods   []Pod
	Others []string
	// Separate are the paths of the pods whose threads must have the core-scheduling cookie of batch
	// pods, and Together those of the pods whose threads must not.
	Separate, Together []string
}

// Capacity returns what the node offers to batch pods, in thousandths of a CPU: the decided
// capacity, but at least what the running pods request, because a kubelet that starts rejects pods
// that do not fit. Other pods do not count: everybody may bind a pod of any request to the node,
// which the kubelet then rejects. It returns false while nothing has been decided.
func (b *Status) Capacity() (capacity int64, known bool) {
	return max(int64(milliCPU(b.Decision.Capacity)), b.Requested), b.Decision.Budget > 0
}

// Budget returns what all batch pods together may use, +Inf while nothing has been decided.
func (b *Status) Budget() quantity.CPUs {
	if b.Decision.Budget == 0 {
		return quantity.CPUs(math.Inf(1))
	}
	return b.Decision.Budget
}

// Status returns what is known about batch pods after a decision. exclusive are the exclusive CPUs of
// containers, by path.
func (c *Controller) Status(s *node.State, exclusive map[string]cpuset.Set) Status {
	b := Status{Mechanisms: c.Mechanisms(s.View), Bounded: c.budget != nil, Tier: tier(s.View), Decision: c.decided}
	b.Excluded = []string{b.Tier}
	for path, cpus := range exclusive {
		if !cpus.IsEmpty() {
			b.Excluded = append(b.Excluded, path)
		}
	}
	for _, pod := range s.Pods.All() {
		if pod.Object.Status.Phase == corev1.PodRunning && !pod.Departed {
			b.Requested += api.BatchRequest(pod.Object)
		}
	}
	for i := range s.Limited {
		l, class := &s.Limited[i], s.Classes[s.Limited[i].Ref.Pod]
		if !l.IsPod() {
			if class == nodeplan.LS && s.View.Exists(l.Path) {
				b.Online = append(b.Online, l.Path)
			}
			continue
		}
		if pod := s.Pods.Of(l.Ref.Pod); isBatch(l, pod, class) {
			b.Pods = append(b.Pods, Pod{l.Namespace, l.Name, l.Path, api.BatchRequest(pod.Object)})
		} else {
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
