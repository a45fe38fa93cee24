package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/core/status"
	"pinfold.dev/pinfold/kube/admission"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/test/history"
)

// TestHostileTenant: whatever a tenant writes who may edit one namespace, other pods keep their CPUs,
// and those that come later get what they request. Neither the node's conditions nor the exit status of
// "pinfold status --check" change. The namespace is one that admission policies do not cover.
func TestHostileTenant(t *testing.T) {
	h := record(t, 1)
	node := h.newAllocator("exact-hostile")
	all := attacks()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			a := newAttacker(begin(t), h.driver.Tenant, node)
			a.victim("holder", 2, nil)
			a.victim("bursting", 1, map[string]string{api.CPUSetSchedulerAnnotation: "true", api.CPUPolicyAnnotation: "static-burst"})
			a.victim("plain", 1, map[string]string{})
			a.nodeCondition(node.node, corev1.ConditionTrue, "Enforced")
			var before string
			a.eventually("groups of earlier pods, which are being removed, are forgotten", func() error {
				if before = a.seen(); strings.Contains(before, "cannot read some control groups") {
					return fmt.Errorf("%s", before)
				}
				return nil
			})
			all[name](a)
			a.check()
			if now := a.seen(); now != before || !strings.Contains(before, "exit status 0") {
				t.Errorf("the operator saw\n%s and now sees\n%s", before, now)
			}
			if a.node.requested() <= 7000 { // the attacker gives back what it has borrowed
				a.victim("early", 1, nil)
			}
			a.eventually("the attacker's pods are gone", func() error { return a.deletePods(t.Context(), a.namespace) })
			a.victim("late", 1, nil)
			a.check()
		})
	}
	h.check(1)
}

// attacker is a tenant, with pods of others on the same node.
type attacker struct {
	*test
	node      *allocator
	tenant    kubernetes.Interface
	namespace string                       // the tenant's
	victims   map[types.UID]api.Allocation // what the pods of others have
}

// newAttacker gives a tenant a namespace to edit.
func newAttacker(c *test, tenant kubernetes.Interface, node *allocator) *attacker {
	c.Helper()
	a := &attacker{c, node, tenant, c.newNamespace(map[string]string{admission.UnprotectedLabel: "true", admission.KeepRequestsLabel: "true"}), map[types.UID]api.Allocation{}}
	_, err := c.client.RbacV1().RoleBindings(a.namespace).Create(c.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "tenant"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: history.TenantUser}}}, metav1.CreateOptions{})
	c.must(err)
	c.eventually("the tenant may edit its namespace", func() error {
		_, err := tenant.CoreV1().Pods(a.namespace).Create(c.Context(), c.parse(asking("trial", 1, "")), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
	return a
}

// pod returns a pod that asks for CPUs of the node.
func (a *attacker) pod(name, request, limit string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{api.CPUSetSchedulerAnnotation: "true"}},
		Spec: corev1.PodSpec{NodeSelector: map[string]string{corev1.LabelHostname: a.node.node}, TerminationGracePeriodSeconds: new(int64),
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, // of a node that has just become ready
			Containers: []corev1.Container{{Name: "app", Image: "image", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse(request)}, Limits: corev1.ResourceList{"cpu": resource.MustParse(limit)}}}}}}
}

// named returns a pod that names the node, and so bypasses the scheduler.
func (a *attacker) named(name, request, limit string) *corev1.Pod {
	pod := a.pod(name, request, limit)
	pod.Spec.NodeName, pod.Spec.NodeSelector = a.node.node, nil
	return pod
}

// victim runs a pod of somebody else, which gets what it asks for: CPUs, unless the annotations are
// others. Another scheduler than Pinfold's, which counts requests, has bound it.
func (a *attacker) victim(name string, cpus int, annotations map[string]string) {
	a.Helper()
	pod := a.named(name, fmt.Sprint(cpus), fmt.Sprint(cpus))
	if annotations != nil {
		pod.Annotations = annotations
	}
	pod, err := a.podAPI().Create(a.Context(), pod, metav1.CreateOptions{})
	a.must(err)
	if pod.Annotations[api.CPUSetSchedulerAnnotation] != "" {
		a.victims[pod.UID] = a.gets(pod)
	}
}

// gets waits until the agent has allocated CPUs to a pod.
func (a *attacker) gets(pod *corev1.Pod) (got api.Allocation) {
	a.Helper()
	a.eventually("the agent allocates CPUs to "+pod.Name, func() error {
		if err := a.node.kubelet(a.Context()); err != nil {
			return err
		}
		all, err := a.allocations(a.node.node)
		if found, ok := all[pod.UID]; ok {
			got = found
		} else if err == nil {
			err = fmt.Errorf("it has allocated %+v", all)
		}
		return err
	})
	return got
}

// check waits until the agent has carried out what it decided, and checks that victims have what they
// had.
func (a *attacker) check() {
	a.Helper()
	time.Sleep(time.Second / 2) // decided and published
	a.eventually("groups have the CPUs that were allocated", func() error {
		if err := a.node.kubelet(a.Context()); err != nil {
			return err
		}
		return a.node.agrees()
	})
	all, err := a.allocations(a.node.node)
	a.must(err)
	for uid, had := range a.victims {
		if now := all[uid]; now.Encode() != had.Encode() {
			a.Errorf("a victim had %s and has %s", had.Encode(), now.Encode())
		}
	}
}

// seen returns what an operator sees of the node, except warnings about pods.
func (a *attacker) seen() string {
	a.Helper()
	node, err := a.client.CoreV1().Nodes().Get(a.Context(), a.node.node, metav1.GetOptions{})
	a.must(err)
	var b strings.Builder
	for _, c := range node.Status.Conditions {
		fmt.Fprintln(&b, c.Type, c.Status, c.Reason, c.Message)
	}
	report, exit := a.status(a.kubeconfig(), "--check")
	if exit == 3 { // pods do not get what they ask for, as those of a tenant may
		exit = 0
	}
	fmt.Fprintln(&b, "exit status", exit, "problems", report.Of(status.Error), "unread", report.Unread)
	for _, s := range report.Schedulers {
		fmt.Fprintln(&b, "scheduler", s.Lease, s.State, s.Holder)
	}
	return b.String()
}

// submit creates a pod as the tenant. A rejection is as good as no effect.
func (a *attacker) submit(pod *corev1.Pod) {
	a.Helper()
	pod.Namespace = a.namespace
	_, err := a.tenant.CoreV1().Pods(a.namespace).Create(a.Context(), pod, metav1.CreateOptions{})
	a.expectAnswer(err)
}

func (a *attacker) expectAnswer(err error) {
	a.Helper()
	if err != nil && !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) && !apierrors.IsConflict(err) && !apierrors.IsBadRequest(err) {
		a.Errorf("neither executed nor rejected: %v", err)
	}
}

// edit changes annotations as the tenant.
func (a *attacker) edit(pod string, values map[string]any) {
	a.Helper()
	text, err := yaml.Marshal(map[string]any{"metadata": map[string]any{"annotations": values}})
	a.must(err)
	if text, err = yaml.YAMLToJSON(text); err == nil {
		a.patch(pod, types.MergePatchType, text)
	}
	a.must(err)
}

func (a *attacker) patch(pod string, kind types.PatchType, text []byte, subresources ...string) {
	a.Helper()
	_, err := a.tenant.CoreV1().Pods(a.namespace).Patch(a.Context(), pod, kind, text, metav1.PatchOptions{}, subresources...)
	a.expectAnswer(err)
}

// runs runs a pod of the attacker to which the agent allocates a CPU.
func (a *attacker) runs(name string) {
	a.Helper()
	a.submit(a.pod(name, "1", "1"))
	a.gets(a.boundIn(a.namespace, name))
}
