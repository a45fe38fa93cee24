package history

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/kube/api"
)

// origin is how a pod got its node.
type origin int

const (
	waiting   origin = iota // it has no node yet
	scheduled               // from Pinfold's scheduler
	bypassed                // it was created with its node, or another scheduler has bound it
)

// pod is an existing pod.
type pod struct {
	*corev1.Pod
	origin  origin
	boundAt uint64 // revision
	// unchanged is set while the pod asks for what it asked for when it was bound.
	unchanged bool
	// allocated are the CPUs that an agent has allocated to the pod last. It keeps them while it asks for
	// the same. served is set once it has got some.
	allocated     cpuset.Set
	keeps, served bool
	// ran is how often its node's agent had published when the pod was seen to run, 0 before.
	ran int
	// shared is the smallest request for shared CPUs since the pod was bound: it has others then, and the
	// scheduler does not decide about later increases by a resize.
	shared ledger.MilliCPU
}

func (p *pod) String() string { return p.Namespace + "/" + p.Name }

func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// applyPod applies one change of a pod.
func (c *checker) applyPod(event Event, object *corev1.Pod) {
	c.changed[object.Spec.NodeName] = true
	before := c.pods[object.UID]
	if event.Type == Deleted {
		c.countUnserved(before)
		delete(c.pods, object.UID)
		return
	}
	now := &pod{Pod: object}
	c.pods[object.UID] = now
	if before == nil {
		if object.Spec.NodeName != "" {
			now.origin = bypassed
		}
		return
	}
	now.origin, now.boundAt, now.allocated, now.served, now.ran = before.origin, before.boundAt, before.allocated, before.served, before.ran
	if now.ran == 0 && object.Status.Phase == corev1.PodRunning {
		now.ran = c.node(object.Spec.NodeName).publications
	}
	same := sameAnnotations(before.Pod, object) && equality.Semantic.DeepEqual(before.Spec.Containers, object.Spec.Containers)
	asks, _ := api.Asks(object)
	now.keeps, now.unchanged = before.keeps && asks && same, before.unchanged && api.AskAlike(before.Pod, object)
	now.shared = c.node(object.Spec.NodeName).sharedRequest(object)
	switch {
	case object.Spec.NodeName == "":
	case before.Spec.NodeName == "":
		now.boundAt, now.origin, now.unchanged = event.Revision, scheduled, true
		if name := object.Spec.SchedulerName; name != "" && name == c.options.Stock {
			now.origin = bypassed
		}
	default:
		now.shared = min(now.shared, before.shared)
	}
}

// countUnserved counts a pod, in the end, if the scheduler's prediction for it was wrong: its node's agent has
// published what it has allocated since the pod ran, more than once because the first may be older.
func (c *checker) countUnserved(p *pod) {
	if p == nil || p.origin != scheduled || !p.unchanged || p.served || p.Status.Phase != corev1.PodRunning ||
		c.node(p.Spec.NodeName).publications < p.ran+2 {
		return
	}
	if intent, err := api.Parse(p.Pod); err == nil && intent.Asks() {
		c.report.Unserved = append(c.report.Unserved, fmt.Sprintf("%s on %s", p, p.Spec.NodeName))
	}
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
