package node

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/local/localnode"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/variables"
)

// tenantNamespace is the only namespace whose objects the tenant may edit.
const tenantNamespace = "tenant"

// hostile is a cluster that an editor of one namespace attacks.
type hostile struct {
	*settled
	tenant kubernetes.Interface
}

// TestHostileTenant attacks a real node as a user who may edit one namespace. The tenant's
// containers do not exceed their limits over time, and neither the settings of other pods nor the
// node's condition change.
// PINFOLD_TEST_LONG is the duration of each attack.
func TestHostileTenant(t *testing.T) {
	h := &hostile{settled: settle(t)}
	h.tenant = h.createTenant(t)
	requests := []byte(`{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"1"}}}]}}`) // it borrows no CPU
	must.Get(h.client.CoreV1().Pods(metav1.NamespaceDefault).Patch(t.Context(), "static", types.StrategicMergePatchType, requests, metav1.PatchOptions{}, "resize"))(t)
	eventually(t, "settings", h.check)
	const limit, quota = "100m", 10 * time.Millisecond
	for _, a := range []struct{ name, key, one, other string }{
		{"long periods", api.CPUPeriodAnnotation, "1s", "999ms"},
		{"short periods", api.CPUPeriodAnnotation, "100ms", "99ms"},
		{"burst percentages", api.CPUBurstAnnotation, `{"policy":"burst","burstPercent":100}`, `{"policy":"burst","burstPercent":99}`},
		{"burst policies", api.CPUBurstAnnotation, `{"policy":"none"}`, `{"policy":"burst","burstPercent":100}`},
	} {
		t.Run(a.name, func(t *testing.T) {
			h.overuse(t, limit, 0, func(name string, n int) error {
				time.Sleep(100 * time.Millisecond)
				patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, a.key, []string{a.one, a.other}[n%2])
				_, err := h.tenant.CoreV1().Pods(tenantNamespace).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
				return err
			})
		})
	}
	for name, pause := range map[string]time.Duration{"resizes": 0, "resizes with pauses": 100 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			// Each write of the kubelet refills the buckets of the pod and of its container.
			h.overuse(t, limit, 2*quota, func(name string, n int) error {
				time.Sleep(pause) // with a pause each resize reaches the kernel
				patch := fmt.Appendf(nil, `{"spec":{"containers":[{"name":"main","resources":{"limits":{"cpu":%q}}}]}}`, []string{"102m", limit}[n%2])
				_, err := h.tenant.CoreV1().Pods(tenantNamespace).Patch(t.Context(), name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "resize")
				return err
			})
		})
	}
	t.Run("bound by itself", h.testBound)
	t.Run("mirror pod", h.testMirror)
	t.Run("pods that are created again", h.testRecreated)
	if err := h.check(); err != nil {
		t.Error(err)
	}
	h.remove(t, "static") // the tenant can have its CPU
	t.Run("edits", h.testEdits)
	t.Run("ephemeral container", h.testEphemeral)
	t.Run("forced deletion", h.testForced)
	if c, err := h.condition(t.Context()); err != nil || c.Status != corev1.ConditionTrue {
		t.Errorf("the tenant has changed the node's condition: %+v, %v", c, err)
	}
}

// createTenant creates the namespace and returns a client of its editor.
func (h *hostile) createTenant(t *testing.T) kubernetes.Interface {
	t.Helper()
	const user = "system:serviceaccount:" + tenantNamespace + ":editor"
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenantNamespace}}
	must.Get(h.client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}))(t)
	resizer := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "resizer"}, // not included in the role edit
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods/resize"}, Verbs: []string{"patch"}}}}
	must.Get(h.client.RbacV1().Roles(tenantNamespace).Create(t.Context(), resizer, metav1.CreateOptions{}))(t)
	for kind, role := range map[string]string{"ClusterRole": "edit", "Role": resizer.Name} {
		binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}}
		must.Get(h.client.RbacV1().RoleBindings(tenantNamespace).Create(t.Context(), binding, metav1.CreateOptions{}))(t)
	}
	config := connection(t, filepath.Join(h.dir, "kubeconfig"))
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	return must.Get(kubernetes.NewForConfig(config))(t)
}

// runOwn runs a pod of the tenant with one container "main".
func (h *hostile) runOwn(t *testing.T, name, limit string) *corev1.Pod {
	t.Helper()
	return h.runPod(t, podOf(name, "", container("main", "8001", limit)))
}

// runPod runs a pod in the tenant's namespace.
func (h *hostile) runPod(t *testing.T, made *corev1.Pod) (pod *corev1.Pod) {
	t.Helper()
	name := made.Name
	made.Namespace = tenantNamespace
	pods := h.tenant.CoreV1().Pods(tenantNamespace)
	eventually(t, "pod "+name, func() (err error) {
		_, err = pods.Create(t.Context(), made, metav1.CreateOptions{}) // the role and the service account become effective after a moment
		if apierrors.IsAlreadyExists(err) {
			err = nil
		}
		if err == nil {
			pod, err = pods.Get(t.Context(), name, metav1.GetOptions{})
		}
		if err == nil && (pod.Status.Phase != corev1.PodRunning || h.kernel.containerGroup(pod, "main") == "") {
			err = fmt.Errorf("is %s: %+v", pod.Status.Phase, pod.Status.ContainerStatuses)
		}
		return err
	})
	return pod
}

// overuse lets a container spin while the tenant changes its pod repeatedly; change is called with
// the number of the change. The container may use perWrite more for each change that reaches the
// kernel.
func (h *hostile) overuse(t *testing.T, limit string, perWrite time.Duration, change func(pod string, n int) error) {
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	pod := h.runOwn(t, name, limit)
	defer h.removeOwn(t, name)
	group := h.kernel.containerGroup(pod, "main")
	ctx, cancel := context.WithCancel(t.Context())
	var refills sync.WaitGroup
	writes := 0
	refills.Go(func() { writes = h.countQuotas(ctx, group) })
	before := h.kernel.usage(t, group)
	h.kernel.spin(t, group)
	begun, changes := time.Now(), 0
	for duration := variables.Duration(t, "PINFOLD_TEST_LONG", 5*time.Second); time.Since(begun) < duration; changes++ {
		if err := change(name, changes); err != nil && !apierrors.IsConflict(err) {
			t.Fatal(err)
		}
	}
	cancel()
	refills.Wait()
	t.Logf("%d changes, of which %d reached the kernel", changes, writes)
	h.kernel.usesAtMost(t, group, before, begun, func(elapsed time.Duration) time.Duration {
		// The pod's budget holds three seconds at most, and it began with a bucket of two quotas; slices
		// of 5 ms are added.
		return elapsed/10 + 3*time.Second/10 + 2*100*time.Millisecond/10 + 20*time.Millisecond + time.Duration(writes)*perWrite
	})
}

// countQuotas counts how often a cgroup's quota changes.
func (h *hostile) countQuotas(ctx context.Context, group string) (changes int) {
	for last := time.Duration(0); ctx.Err() == nil; time.Sleep(time.Millisecond) {
		if s, err := h.kernel.groups.Read(group); err == nil && s.Quota != last {
			changes++
			last = s.Quota
		}
	}
	return changes - 1 // the first is the initial quota
}

// testBound creates a pod that names its node, and asks for CPUs that others have.
func (h *hostile) testBound(t *testing.T) {
	h.runOwn(t, "ordinary", "100m")
	pod := podOf("bound", "static", container("main", "8001", "1"))
	pod.Namespace, pod.Spec.NodeName = tenantNamespace, localnode.Name
	must.Get(h.tenant.CoreV1().Pods(tenantNamespace).Create(t.Context(), pod, metav1.CreateOptions{}))(t)
	eventually(t, "the pod that named its node", func() error {
		got, err := h.tenant.CoreV1().Pods(tenantNamespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
		if err == nil && got.Status.Phase == corev1.PodPending {
			err = fmt.Errorf("is %+v", got.Status)
		}
		return err
	})
	if err := h.check(); err != nil {
		t.Errorf("another pod has lost CPUs: %v", err)
	}
}

// testMirror creates a pod that claims to be the mirror of another namespace's static pod, and asks
// for a burst.
func (h *hostile) testMirror(t *testing.T) {
	mirror := h.runStatic(t)
	want := settings{cpus: h.shared, quota: 40 * time.Millisecond}
	eventually(t, "settings of the static pod", func() error { return h.kernel.expectSingle(mirror, want) })
	pod := podOf("mirror", "", container("main", "8001", "400m"))
	pod.Namespace, pod.Spec.NodeName = tenantNamespace, localnode.Name
	pod.Annotations = map[string]string{api.CPUBurstAnnotation: `{"policy":"burst"}`, api.CPUPeriodAnnotation: "1s"}
	for key, value := range mirror.Annotations {
		if strings.HasPrefix(key, "kubernetes.io/config.") {
			pod.Annotations[key] = value
		}
	}
	if _, err := h.tenant.CoreV1().Pods(tenantNamespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Logf("rejected: %v", err)
	}
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err := h.kernel.expectSingle(mirror, want); err != nil {
			t.Fatalf("the static pod's settings have changed: %v", err)
		}
	}
}
