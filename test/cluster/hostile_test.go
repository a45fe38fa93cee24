package cluster

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/status"
	"pinfold.dev/pinfold/kube/admission"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/test/history"
)

// TestHostileTenant: whatever a tenant writes who may edit one namespace, other pods keep their
// CPUs, and the tenant's pods have only CPUs that the scheduler gave them. Neither the node's
// conditions nor the exit status of "pinfold status --check" change. The namespace is one that the
// admission policy does not cover, so that the books alone prevent it.
func TestHostileTenant(t *testing.T) {
	h := record(t, 1)
	all := attacks()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			a := newAttacker(begin(t), h.driver.Tenant)
			a.create(asking("holder", 2, ""))
			a.create(strings.Replace(asking("bursting", 1, ""), `"true"`, `"true", cpu-policy: static-burst`, 1))
			a.create(strings.Replace(asking("plain", 1, ""), `"true"`, `"false"`, 1))
			for _, name := range []string{"holder", "bursting", "plain"} {
				a.victims = append(a.victims, a.bound(name))
			}
			a.before = a.seen()
			all[name](a)
			a.checkVictims()
			a.checkSeen()
		})
	}
	h.check()
}

// attacker is the tenant, with pods of others on the same node.
type attacker struct {
	*test
	tenant    kubernetes.Interface
	namespace string // the tenant's
	victims   []*corev1.Pod
	entitled  int // number of CPUs that the scheduler gave the tenant
	before    string
}

// newAttacker gives a tenant a namespace to edit.
func newAttacker(c *test, tenant kubernetes.Interface) *attacker {
	c.Helper()
	a := &attacker{test: c, tenant: tenant, namespace: c.newNamespace(map[string]string{admission.UnprotectedLabel: "true"})}
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

// seen returns what an operator sees of the node, except warnings about pods.
func (a *attacker) seen() string {
	a.Helper()
	node, err := a.client.CoreV1().Nodes().Get(a.Context(), small0, metav1.GetOptions{})
	a.must(err)
	var b strings.Builder
	for _, c := range node.Status.Conditions {
		fmt.Fprintln(&b, c.Type, c.Status, c.Reason, c.Message)
	}
	report, exit := a.status(a.kubeconfig(), "--check", "--allocation-keys="+filepath.Join(a.dir, "pki", "allocations.pub"))
	fmt.Fprintln(&b, "exit status", exit, "problems", report.Of(status.Error), "unread", report.Unread)
	for _, s := range report.Schedulers {
		fmt.Fprintln(&b, "scheduler", s.Lease, s.State, s.Holder)
	}
	return b.String()
}

// checkSeen checks that the attack has not changed what an operator sees.
func (a *attacker) checkSeen() {
	a.Helper()
	if now := a.seen(); now != a.before {
		a.Errorf("the operator saw\n%s and now sees\n%s", a.before, now)
	}
	if !strings.Contains(a.before, "exit status 0") {
		a.Errorf("before the attack:\n%s", a.before)
	}
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

// place lets the scheduler give one CPU to a pod of the tenant.
func (a *attacker) place(name string) *corev1.Pod {
	a.Helper()
	a.submit(a.parse(asking(name, 1, "")))
	return a.boundOwn(name)
}

func (a *attacker) boundOwn(name string) *corev1.Pod {
	a.Helper()
	return a.boundIn(a.namespace, name)
}

// checkVictims checks the node's books as the scheduler and the agent see them. It places one more
// pod first, so that the scheduler has received all earlier changes.
func (a *attacker) checkVictims() {
	a.Helper()
	a.create(asking("late", 1, ""))
	a.victims = append(a.victims, a.bound("late"))
	machine, state := a.machine(small0)
	keys := a.keys()
	all, err := a.client.CoreV1().Pods("").List(a.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + small0})
	a.must(err)
	var claims []ledger.Claim
	for i := range all.Items {
		claim, _ := keys.Claim(&all.Items[i], machine) // with an error it claims no exclusive CPUs
		claims = append(claims, claim)
	}
	books := ledger.New(placement.NewIndex(machine), ledger.Config{ReservedCPUs: state.ReservedCPUs, MinShared: 1}, claims...)
	for _, before := range a.victims {
		now := a.pod(before.Name)
		if now.Annotations[api.AllocationAnnotation] != before.Annotations[api.AllocationAnnotation] || now.Spec.NodeName != before.Spec.NodeName {
			a.Errorf("victim %s was changed from\n%v to\n%v", before.Name, before.Annotations, now.Annotations)
		}
		a.checkOwner(books, now)
	}
	if own := a.own(books, all.Items); own.Len() > a.entitled {
		a.Errorf("the attacker has CPUs %s, want %d CPUs", own, a.entitled)
	}
	for _, conflict := range books.Conflicts() {
		for _, victim := range a.victims {
			if conflict.ID == ledger.PodID(victim.UID) {
				a.Errorf("victim %s loses: %s", victim.Name, conflict)
			}
		}
	}
}

// checkOwner checks that the CPUs of a victim's allocation belong to the victim in the books.
func (a *attacker) checkOwner(books *ledger.Books, victim *corev1.Pod) {
	a.Helper()
	if !strings.Contains(victim.Annotations[api.AllocationAnnotation], `"static"`) {
		return
	}
	owned := ownedBy(books, victim)
	for _, container := range a.allocation(victim).Containers {
		if others := container.CPUs.Difference(owned); !others.IsEmpty() {
			a.Errorf("CPUs %s of victim %s do not belong to it", others, victim.Name)
		}
	}
}

// own returns the exclusive CPUs of the attacker's pods.
func (a *attacker) own(books *ledger.Books, pods []corev1.Pod) (cpus cpuset.Set) {
	for i := range pods {
		if pods[i].Namespace == a.namespace {
			cpus = cpus.Union(ownedBy(books, &pods[i]))
		}
	}
	return cpus.Intersection(books.Exclusive())
}

// ownedBy returns the CPUs that belong to a pod in the books.
func ownedBy(books *ledger.Books, pod *corev1.Pod) (cpus cpuset.Set) {
	for _, p := range books.Portions() {
		if p.Pod == ledger.PodID(pod.UID) {
			cpus = cpus.Union(p.CPUs)
		}
	}
	return cpus
}

// keys returns the keys that verify the scheduler's allocations.
func (c *test) keys() *api.Keys {
	c.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, "pki", "allocations.pub"))
	c.must(err)
	keys, err := api.ParsePublicKeys(text)
	c.must(err)
	return api.NewKeys(keys...)
}
