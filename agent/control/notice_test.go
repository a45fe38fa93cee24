package control

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/kube/api"
)

// The kubelet's annotations on a mirror pod.
const mirror, hash = "kubernetes.io/config.mirror", "kubernetes.io/config.hash"

// TestConditionIgnoresTenants: whatever a tenant writes on pods changes neither the node's
// condition nor what counts as a problem of the node. The pods get an event instead.
func TestConditionIgnoresTenants(t *testing.T) {
	values := []string{"", "true", "false", "x", "0", "-1", "1s", "none", "static-burst", "required", "BE", "LS", "LSE", "SYSTEM", "\x1b[2J",
		`{"policy":"auto","burstPercent":100000}`, `{`, strings.Repeat("x", 5000)}
	type attack struct {
		reason string // of an event that it must cause, or ""
		pod    func(*corev1.Pod)
	}
	attacks := map[string]attack{
		"asks for CPUs and has no limit": {groups.NotGiven, func(p *corev1.Pod) { p.Annotations[api.CPUSetSchedulerAnnotation] = "true" }},
		"requests more than is shared": {string(nodeplan.Overflow), func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("40")}
		}},
		"requests more than is counted": {"", func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("9000P")}
		}},
		"is a batch pod with a limit":     {string(nodeplan.NotBestEffort), func(p *corev1.Pod) { p.Labels = map[string]string{api.QoSLabel: "BE"}; limit(p, "1") }},
		"is BestEffort beside batch pods": {string(nodeplan.BatchUnbounded), func(p *corev1.Pod) { p.Status.QOSClass = corev1.PodQOSBestEffort }},
		"claims to be a mirror pod": {groups.NotAStaticPod, func(p *corev1.Pod) {
			p.Annotations[mirror], p.Annotations[hash], p.Annotations[api.CPUSetSchedulerAnnotation] = "0a5f", "0a5f", "true"
		}},
		"has the name of a static pod": {groups.NotGiven, func(p *corev1.Pod) {
			p.Name, p.Namespace, p.Annotations[api.CPUSetSchedulerAnnotation] = "etcd", "kube-system", "true"
		}},
		"misspells an annotation": {groups.UnknownKey, func(p *corev1.Pod) { p.Annotations["pinfold.dev/cpu-brust"] = "x" }},
	}
	for _, key := range []string{api.CPUSetSchedulerAnnotation, "cpuset-scheduler", api.CPUPolicyAnnotation, api.FullCoresAnnotation, api.CPUBurstAnnotation,
		api.CPUPeriodAnnotation, "koordinator.sh/cpuBurst", mirror, hash} {
		for _, value := range values {
			attacks[fmt.Sprintf("annotation %s=%.20q", key, value)] = attack{pod: func(p *corev1.Pod) { p.Annotations[key] = value }}
		}
	}
	for _, key := range []string{api.QoSLabel, "koordinator.sh/qosClass", "alibabacloud.com/qosClass", "app.kubernetes.io/name"} {
		for _, value := range values {
			attacks[fmt.Sprintf("label %s=%.20q", key, value)] = attack{pod: func(p *corev1.Pod) { p.Labels = map[string]string{key: value} }}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(attacks)) {
		t.Run(name, func(t *testing.T) {
			n := attackedNode(t)
			before := n.last.Report
			pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "main"}}},
				Status: corev1.PodStatus{Phase: corev1.PodRunning, QOSClass: corev1.PodQOSBurstable}}
			pod.Name, pod.Namespace, pod.UID, pod.Annotations = "evil", "tenant", "uid-evil", map[string]string{}
			attacks[name].pod(pod)
			n.pods["evil"] = pod
			reasons := map[string]bool{}
			n.create("evil/main")
			n.kernel.other("evil/unknown", nil)
			for range 3 {
				n.observe()
				n.control.Step(Event{StaticPods: map[ledger.PodID]types.NamespacedName{"0a5f": {Namespace: "kube-system", Name: "etcd"}}})
				n.decide()
			}
			report := n.last.Report
			for _, e := range n.events {
				reasons[e.Reason] = true
			}
			if d := cmp.Diff(before.Condition, report.Condition); d != "" {
				t.Errorf("the condition has changed:\n%s", d)
			}
			if d := cmp.Diff(before.Summary.Problems, report.Summary.Problems); d != "" {
				t.Errorf("the problems of the node have changed:\n%s", d)
			}
			if want := attacks[name].reason; want != "" && !reasons[want] {
				t.Errorf("events %v, want one of reason %s", reasons, want)
			}
			if !reasons[groups.UnknownGroup] {
				t.Errorf("events %v, want one about the unknown cgroup", reasons)
			}
		})
	}
}

// attackedNode returns a node with pods of others and an offline CPU.
func attackedNode(t *testing.T) *fakeNode {
	n := newFakeNode()
	n.play(t, "machine cores=4 threads=2", "kubelet policy=none", "agent batch-priority=idle batch=65%", "restart",
		"pod web app=2@0,4", "pod near app=1@node0", "pod batch qos=BE tier=BestEffort main=-", "offline 7",
		"create web/app", "create near/app", "create batch/main", "round", "tick 20 others=1", "round")
	if c := n.last.Report.Condition; c.Status != corev1.ConditionTrue {
		t.Fatalf("before the attack the condition is %v", c)
	}
	return n
}

func limit(p *corev1.Pod, cpus string) {
	p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse(cpus)}
}

// TestConditionOfStaticPods checks that a static pod, which only root of the node can write, makes
// the condition False.
func TestConditionOfStaticPods(t *testing.T) {
	n := attackedNode(t)
	static := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "main"}}}}
	static.Name, static.Namespace, static.UID = "etcd", "kube-system", "uid-etcd"
	static.Annotations = map[string]string{mirror: "0a5f", hash: "0a5f", api.CPUSetSchedulerAnnotation: "yes"}
	n.pods["etcd"] = static
	n.observe()
	n.control.Step(Event{StaticPods: map[ledger.PodID]types.NamespacedName{"0a5f": {Namespace: "kube-system", Name: "etcd"}}})
	n.decide()
	if c := n.last.Report.Condition; c.Status != corev1.ConditionFalse || c.Reason != groups.NotGiven {
		t.Errorf("condition %+v, want False because of the static pod", c)
	}
}

// counted are the reasons that docs/security.md says the metric pinfold_pod_warnings counts: those with its alert.
var counted = sync.OnceValue(func() map[string]bool {
	text, _ := os.ReadFile("../../docs/security.md")
	reasons := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]+) \\|.*PinfoldPodNotServed").FindAllSubmatch(text, -1) {
		for _, name := range regexp.MustCompile("`(\\w+)`").FindAllSubmatch(row[1], -1) {
			reasons[string(name[1])] = true
		}
	}
	return reasons
})

// miscounted returns what the metric counts and docs/security.md does not say, or the other way round.
func miscounted(s *Summary) (wrong []string) {
	for _, n := range s.Warnings {
		if !counted()[n.Reason] {
			wrong = append(wrong, "docs/security.md does not say that this is counted: "+n.Reason)
		}
	}
	for _, n := range slices.Concat(s.News, s.PodNotes) {
		if counted()[n.Reason] {
			wrong = append(wrong, "docs/security.md says that this is counted: "+n.Reason)
		}
	}
	return wrong
}
