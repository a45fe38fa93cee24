package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/test/history"
)

// attacks are what a tenant may try: at creation, between two steps, and in loops.
func attacks() map[string]func(*attacker) {
	return map[string]func(*attacker){
		"every annotation":        (*attacker).everyAnnotation,
		"mirror pods":             (*attacker).mirror,
		"asks once bound":         (*attacker).askLate,
		"asks while it is bound":  (*attacker).askMeanwhile,
		"asks and ceases":         (*attacker).flip,
		"changes the policy":      (*attacker).changePolicy,
		"resizes":                 (*attacker).resize,
		"names the node":          (*attacker).nameNode,
		"long names":              (*attacker).longNames,
		"thousands of containers": (*attacker).thousandsOfContainers,
		"ephemeral containers":    (*attacker).ephemeral,
		"forbidden":               (*attacker).forbidden,
		"poses as Pinfold":        (*attacker).pose,
	}
}

// everyAnnotation writes what is read, and what no program reads, such as the CPUs of a victim.
func (a *attacker) everyAnnotation() {
	values := map[string][]string{
		api.CPUBurstAnnotation:                      {`{"policy":"auto","burstPercent":10000,"quotaBurstSeconds":3600}`, "x", `{"policy":7}`},
		api.CPUPeriodAnnotation:                     {"1ms", "1s", "0", "-1s", "1h"},
		"koordinator.sh/cpuBurst":                   {`{"policy":"auto","cpuBurstPercent":10000}`},
		"alibabacloud.com/cpuBurst":                 {`{"policy":"cpuBurstOnly"}`},
		api.FullCoresAnnotation:                     {"required", "x"},
		api.CPUPolicyAnnotation:                     {"static-burst", "none", "x"},
		api.CPUSetSchedulerAnnotation:               {"true", "false", "x"},
		"scheduling.koordinator.sh/resource-status": {`{"cpuset":"0-7"}`},
		"cpuset":                     {"0-7"},
		"pinfold.dev/cpu-allocation": {"", "x", strings.Repeat("[", 100000)},
	}
	for _, allocation := range a.victims {
		values["pinfold.dev/cpu-allocation"] = append(values["pinfold.dev/cpu-allocation"], allocation.Encode())
	}
	n := 0
	for key, list := range values {
		for _, value := range list {
			for _, asks := range []string{"true", "false"} {
				pod := a.named(fmt.Sprint("named", n), "1m", "8")
				pod.Annotations[api.CPUSetSchedulerAnnotation] = asks
				pod.Annotations[key] = value
				pod.Labels = map[string]string{api.QoSLabel: []string{"BE", "LS", "x"}[n%3], "koordinator.sh/qosClass": "LSE"}
				a.submit(pod)
				n++
			}
		}
	}
}

// mirror poses as the copy of a static pod, and of a victim.
func (a *attacker) mirror() {
	node, err := a.client.CoreV1().Nodes().Get(a.Context(), a.node.node, metav1.GetOptions{})
	a.must(err)
	for i, hash := range append(slices.Collect(maps.Keys(a.victims)), "x") {
		pod := a.named(fmt.Sprint("mirror", i), "10m", "2")
		for _, key := range []string{"mirror", "hash", "source"} {
			pod.Annotations["kubernetes.io/config."+key] = string(hash)
		}
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, Controller: new(true)}}
		a.submit(pod)
	}
}

// askLate asks for CPUs after the pods are bound.
func (a *attacker) askLate() {
	for i, pod := range []*corev1.Pod{a.named("covered", "1", "1"), a.named("borrows", "1m", "8")} {
		pod.Annotations = nil
		a.submit(pod)
		a.edit(pod.Name, map[string]any{api.CPUSetSchedulerAnnotation: "true"})
		if i == 0 {
			a.gets(a.boundIn(a.namespace, pod.Name))
		}
	}
}

// askMeanwhile creates pods that ask for CPUs while the scheduler binds them as ones that do not.
func (a *attacker) askMeanwhile() {
	var work sync.WaitGroup
	for i := range 15 {
		pod := a.pod(fmt.Sprint("race", i), "1m", "1")
		pod.Annotations = nil
		a.submit(pod)
		work.Go(func() {
			time.Sleep(time.Duration(i) * time.Millisecond)
			text := []byte(`{"metadata":{"annotations":{"cpuset-scheduler":"true"}}}`)
			_, _ = a.tenant.CoreV1().Pods(a.namespace).Patch(a.Context(), pod.Name, types.MergePatchType, text, metav1.PatchOptions{})
		})
	}
	work.Wait()
}

func (a *attacker) flip() {
	a.runs("flips")
	for i := range 1000 {
		if a.edit("flips", map[string]any{api.CPUSetSchedulerAnnotation: []any{nil, "true", "false", "x"}[i%4]}); i%100 == 0 {
			a.must(a.node.kubelet(a.Context()))
		}
	}
	a.edit("flips", map[string]any{api.CPUSetSchedulerAnnotation: "true"})
	a.gets(a.boundIn(a.namespace, "flips"))
}

func (a *attacker) changePolicy() {
	a.runs("changes")
	for i := range 200 {
		a.edit("changes", map[string]any{api.CPUPolicyAnnotation: []any{"static-burst", "static", "none", "x", nil}[i%5],
			api.FullCoresAnnotation: []any{"required", nil, "x"}[i%3]})
	}
}

// resize requests less than what the pod was allocated, and more than the node has. The role edit does
// not include that.
func (a *attacker) resize() {
	a.runs("resized")
	for i := range 40 {
		a.must(a.node.kubelet(a.Context()))
		request, limit := []string{"10m", "1", "2", "100"}[i%4], []string{"1", "1", "2", "100"}[i%4]
		patch := fmt.Appendf(nil, `{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":%q},"limits":{"cpu":%q}}}]}}`, request, limit)
		_, err := a.client.CoreV1().Pods(a.namespace).Patch(a.Context(), "resized", types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "resize")
		a.expectAnswer(err)
		time.Sleep(50 * time.Millisecond)
	}
	a.must(a.node.kubelet(a.Context()))
}

// nameNode bypasses the scheduler, which counts requests. The kubelet counts them, too. What the agent
// cannot serve is an event.
func (a *attacker) nameNode() {
	for i, request := range []string{"100", "8", "2", "1", "1m"} {
		a.submit(a.named(fmt.Sprint("named", i), request, map[bool]string{true: "100", false: request}[request == "1m"]))
		if i%2 == 0 {
			a.must(a.node.kubelet(a.Context()))
		}
	}
	a.eventOf(a.namespace, "named4", "CPUsNotGiven", "it gets no CPUs of its own")
}

// longNames runs pods whose allocation would be large.
func (a *attacker) longNames() {
	for n, containers := range []int{4, 256} {
		pod := a.named(fmt.Sprint("long", n), "10m", "1")
		one := pod.Spec.Containers[0]
		pod.Spec.Containers = nil
		for i := range containers {
			one.Name = fmt.Sprintf("%060d%03d", 0, i)
			pod.Spec.Containers = append(pod.Spec.Containers, one)
		}
		a.submit(pod)
	}
}

// thousandsOfContainers creates pods with 4,000 init containers that ask, and others with 1,000 that
// do not (with more, the API server may be unable to change them once they run).
func (a *attacker) thousandsOfContainers() {
	for i := range 6 {
		pod := a.pod(fmt.Sprint("many", i), "1", "1")
		if i%2 == 1 {
			pod.Annotations = nil
		}
		init := pod.Spec.Containers[0]
		for n := range []int{4000, 1000}[i%2] {
			init.Name = fmt.Sprint("init-", n)
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, init)
		}
		a.submit(pod)
	}
	begun := time.Now()
	a.create(asking("between", 1, ""))
	a.bound("between")
	a.Logf("another tenant's pod was bound after %v", time.Since(begun))
	for i := 0; i < 6; i += 2 {
		a.refused(a.namespace, fmt.Sprint("many", i), "4001 of its containers have a whole number of CPUs as limits.cpu: at most ")
	}
	a.must(a.client.CoreV1().Pods(a.namespace).DeleteCollection(a.Context(), *metav1.NewDeleteOptions(0), metav1.ListOptions{})) // they are never placed
}

func (a *attacker) ephemeral() {
	a.runs("debugged")
	a.patch("debugged", types.StrategicMergePatchType,
		[]byte(`{"spec":{"ephemeralContainers":[{"name":"app2","image":"image","targetContainerName":"app"}]}}`), "ephemeralcontainers")
}

// pose creates a lease as that of a scheduler, and pods with the labels of Pinfold's.
func (a *attacker) pose() {
	old := metav1.NewMicroTime(time.Now().Add(-time.Hour))
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "evil"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: new("evil"), LeaseDurationSeconds: new(int32(1)), RenewTime: &old}}
	api.SetVersion(lease, "v0.0.1")
	leases := a.tenant.CoordinationV1().Leases(a.namespace)
	_, err := leases.Create(a.Context(), lease, metav1.CreateOptions{})
	a.expectAnswer(err)
	a.Cleanup(func() { _ = leases.Delete(context.Background(), lease.Name, metav1.DeleteOptions{}) })
	for _, name := range []string{"pinfold-scheduler", "pinfold-agent"} {
		pod := a.named(name, "1m", "1")
		pod.Labels = map[string]string{"app.kubernetes.io/name": name}
		a.submit(pod)
	}
}

// forbidden checks that the role edit does not allow the operations on which all protection depends,
// such as publishing allocations in an agent's place.
func (a *attacker) forbidden() {
	a.runs("own")
	config := rest.CopyConfig(a.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: history.TenantUser, Groups: []string{"system:authenticated"}}
	topologies, mine := a.as(config).topologies, a.topology(a.node.node)
	pods := a.tenant.CoreV1().Pods(a.namespace)
	ctx := a.Context()
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "own"}, Target: corev1.ObjectReference{Kind: "Node", Name: a.node.node}}
	for what, try := range map[string]func() error{
		"bind": func() error { return pods.Bind(ctx, binding, metav1.CreateOptions{}) },
		"write status": func() error {
			_, err := pods.Patch(ctx, "own", types.MergePatchType, []byte(`{"status":{"phase":"Running"}}`), metav1.PatchOptions{}, "status")
			return err
		},
		"label the namespace": func() error {
			_, err := a.tenant.CoreV1().Namespaces().Patch(ctx, a.namespace, types.MergePatchType,
				[]byte(`{"metadata":{"labels":{"pinfold.dev/unprotected":"true"}}}`), metav1.PatchOptions{})
			return err
		},
		"edit a node": func() error {
			_, err := a.tenant.CoreV1().Nodes().Patch(ctx, a.node.node, types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
			return err
		},
		"delete a victim": func() error { return a.tenant.CoreV1().Pods(a.home).Delete(ctx, "holder", metav1.DeleteOptions{}) },
		"make himself administrator": func() error {
			_, err := a.tenant.RbacV1().RoleBindings(a.namespace).Create(ctx, &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: "admin"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}},
				metav1.CreateOptions{})
			return err
		},
		"read a topology":   func() error { _, err := topologies.Get(ctx, mine.Name, metav1.GetOptions{}); return err },
		"update a topology": func() error { _, err := topologies.Update(ctx, mine, metav1.UpdateOptions{}); return err },
		"create a topology": func() error {
			_, err := topologies.Create(ctx, &nodetopology.NodeTopology{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, metav1.CreateOptions{})
			return err
		},
		"delete a topology": func() error { return topologies.Delete(ctx, mine.Name, metav1.DeleteOptions{}) },
	} {
		if err := try(); !apierrors.IsForbidden(err) {
			a.Errorf("the tenant may %s: %v", what, err)
		}
	}
}
