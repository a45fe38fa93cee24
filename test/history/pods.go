package history

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/kube/api"
)

// origin is how a pod got its node and its CPUs.
type origin int

const (
	waiting   origin = iota // it has no node yet
	scheduled               // from the scheduler
	bypassed                // it was created or changed so that it bypassed the scheduler
)

// pod is an existing pod.
type pod struct {
	*corev1.Pod
	origin origin
	// unchanged reports whether the pod's creation was observed and its annotations about CPUs have
	// not changed since.
	unchanged bool
	boundAt   uint64 // revision
	// given are the CPUs that an agent gave the pod last. It keeps them while it asks for the same.
	// ceased is set if it has not always asked since then.
	given         cpuset.Set
	keeps, ceased bool
	// claim is what the pod uses of its node. shared is the smallest request for shared CPUs since
	// it was bound, because the scheduler does not decide about later increases by a resize.
	claim  ledger.Claim
	shared ledger.MilliCPU
}

func (p *pod) String() string { return p.Namespace + "/" + p.Name }

// counts reports whether the rules about all pods of a node apply to this pod.
func (p *pod) counts() bool { return p.origin == scheduled && !ended(p.Pod) }

func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// own returns the exclusive CPUs of the pod.
func (p *pod) own() (cpus cpuset.Set) {
	for _, container := range p.claim.Containers {
		cpus = cpus.Union(container.CPUs)
	}
	return cpus
}

// applyPod applies one change of a pod.
func (c *checker) applyPod(event Event, object *corev1.Pod) {
	c.changed[object.Spec.NodeName] = true
	before := c.pods[object.UID]
	if event.Type == Deleted {
		delete(c.pods, object.UID)
		return
	}
	now := &pod{Pod: object}
	c.pods[object.UID] = now
	if before == nil {
		now.unchanged = !event.Relisted
		if object.Spec.NodeName != "" {
			now.origin = bypassed
		}
		return
	}
	now.origin, now.boundAt = before.origin, before.boundAt
	now.unchanged = before.unchanged && sameAnnotations(before.Pod, object)
	asks, _ := api.Asks(object)
	now.given, now.ceased = before.given, before.ceased || !asks
	now.keeps = before.keeps && asks && sameAnnotations(before.Pod, object) && equality.Semantic.DeepEqual(before.Spec.Containers, object.Spec.Containers)
	switch {
	case object.Spec.NodeName == "":
		return
	case before.Spec.NodeName == "":
		c.bound(event, before, now)
	default:
		c.compare(before, now)
	}
	now.claim, _ = api.Claim(now.Pod, nil) // bound has reported the error
	now.shared = now.claim.SharedRequest
	if before.Spec.NodeName != "" {
		now.shared = min(now.shared, before.shared)
	}
}

// bound checks the change that gave a pod its node.
func (c *checker) bound(event Event, before, now *pod) {
	now.boundAt = event.Revision
	if now.Spec.SchedulerName != "" && now.Spec.SchedulerName == c.options.Stock {
		now.origin = bypassed
		return
	}
	old, had := before.Annotations[api.AllocationAnnotation]
	text := now.Annotations[api.AllocationAnnotation]
	has := text != "" // a Binding can empty an annotation, not remove it
	asks := asking(now.Pod)
	switch {
	case asks && has && had && old == text, event.Relisted && (c.unprotected[now.Namespace] || c.inGap(Namespace, c.revision)):
		now.origin = bypassed // the allocation was not, or possibly not, written by the scheduler
		return
	case asks && !has:
		now.origin = bypassed
		if now.unchanged && !c.node(now.Spec.NodeName).allocated {
			c.violation(Unplaced, "pod %s asks for CPUs and was bound to %s without an allocation", now, now.Spec.NodeName)
		}
		return
	}
	now.origin = scheduled
	if !asks {
		return
	}
	allocation, err := api.DecodeAllocation(text)
	if err == nil && allocation.Node != now.Spec.NodeName {
		c.violation(Elsewhere, "pod %s was bound to %s with CPUs of %s", now, now.Spec.NodeName, allocation.Node)
		return
	}
	if _, err := api.Claim(now.Pod, nil); err != nil {
		c.violation(Invalid, "pod %s on %s: %v", now, now.Spec.NodeName, err)
		return
	}
	c.report.Decisions++
}

// compare checks a change of a pod that had a node before.
func (c *checker) compare(before, now *pod) {
	if before.Spec.NodeName != now.Spec.NodeName {
		c.violation(Rebound, "pod %s was moved from %s to %s", now, before.Spec.NodeName, now.Spec.NodeName)
	}
	old, had := before.Annotations[api.AllocationAnnotation]
	text, has := now.Annotations[api.AllocationAnnotation]
	protected := !c.unprotected[now.Namespace] && !c.inGap(Namespace, c.revision)
	switch {
	case had != has || old != text:
		now.origin = bypassed
		if protected {
			c.violation(Edited, "pod %s on %s had the allocation %q and now has %q", now, now.Spec.NodeName, old, text)
		}
	case ended(before.Pod) && !ended(now.Pod):
		now.origin = bypassed // its CPUs were free
	case !holds(before.Pod) && holds(now.Pod):
		now.origin = bypassed
		if protected {
			c.violation(Edited, "pod %s had no CPUs of %s and now has some", now, now.Spec.NodeName)
		}
	}
}

// asking reports whether a bound pod asks for CPUs, whether or not it has any.
func asking(p *corev1.Pod) bool {
	_, err := api.AllocationOf(p)
	return holds(p) || errors.As(err, new(*api.AllocationError))
}

// holds reports whether a pod has an allocation that is in force.
func holds(p *corev1.Pod) bool {
	allocation, _ := api.AllocationOf(p)
	return allocation != nil
}

// sameAnnotations reports whether two versions of a pod have the same annotations about CPUs.
func sameAnnotations(a, b *corev1.Pod) bool {
	for _, keys := range [][]string{api.CPUSetSchedulerKeys(), api.CPUPolicyKeys()} {
		for _, key := range keys {
			if a.Annotations[key] != b.Annotations[key] {
				return false
			}
		}
	}
	return true
}
