package cluster

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/kube/api"
)

// attacks are what a tenant may try: at creation, between two steps, and in loops.
func attacks() map[string]func(*attacker) {
	return map[string]func(*attacker){
		"allocation at creation":         (*attacker).forgeAtCreation,
		"allocation of a victim":         (*attacker).copyVictim,
		"allocation of an earlier pod":   (*attacker).replay,
		"allocations swapped":            (*attacker).swap,
		"allocations that do not parse":  (*attacker).malformed,
		"mirror pod":                     (*attacker).mirror,
		"every annotation":               (*attacker).everyAnnotation,
		"asks once bound":                (*attacker).askLate,
		"asks while it is bound":         (*attacker).askMeanwhile,
		"ceases and asks again":          (*attacker).toggle,
		"removes and restores":           (*attacker).restore,
		"resizes":                        (*attacker).resizes,
		"names the node and requests it": (*attacker).fill,
		"ephemeral containers":           (*attacker).ephemeral,
		"forbidden":                      (*attacker).forbidden,
		"poses as a scheduler":           (*attacker).poseAsScheduler,
		"long annotations":               (*attacker).longAnnotations,
		"thousands of containers":        (*attacker).thousandsOfContainers,
	}
}

// forged returns an allocation of CPUs of small0.
func forged(cpus string) string {
	return `{"version":1,"node":"` + small0 + `","policy":"static","containers":[{"name":"app","cpus":"` + cpus + `","numaNodes":[0]}]}`
}

func (a *attacker) forgeAtCreation() {
	for i, cpus := range []string{"0-7", "0-7", "0-1", "1", "3-6"} {
		pod := a.forgedPod(fmt.Sprint("forged", i))
		pod.Annotations[api.AllocationAnnotation] = forged(cpus)
		a.submit(pod)
		pod = a.forgedPod(fmt.Sprint("waiting", i)) // the scheduler overwrites it, or finds no space
		pod.Spec.NodeName, pod.Spec.NodeSelector = "", map[string]string{corev1.LabelHostname: small0}
		a.submit(pod)
	}
}

// copyVictim assumes that the tenant could read a victim's allocation.
func (a *attacker) copyVictim() {
	pod := a.forgedPod("copy")
	pod.Annotations = a.victims[0].Annotations
	pod.Spec.Containers[0].Resources = a.victims[0].Spec.Containers[0].Resources
	a.submit(pod)
}

// replay uses the allocation of a deleted pod.
func (a *attacker) replay() {
	pod := a.place("earlier")
	a.must(a.tenant.CoreV1().Pods(a.namespace).Delete(a.Context(), pod.Name, *metav1.NewDeleteOptions(0)))
	a.create(asking("heir", 2, "")) // gets the CPU, as one of two of the three that are left
	a.victims = append(a.victims, a.bound("heir"))
	again := a.parse(asking("earlier", 1, "nodeName: "+small0))
	again.Annotations = pod.Annotations
	a.submit(again)
}

func (a *attacker) swap() {
	one, two := a.place("one"), a.place("two")
	a.entitled = 2
	a.edit("one", map[string]any{api.AllocationAnnotation: two.Annotations[api.AllocationAnnotation]})
	a.edit("two", map[string]any{api.AllocationAnnotation: one.Annotations[api.AllocationAnnotation]})
	a.edit("two", map[string]any{api.AllocationAnnotation: a.victims[0].Annotations[api.AllocationAnnotation]})
}

func (a *attacker) malformed() {
	for i, text := range []string{"", "{", "null", "[]", forged(""), forged("-1"), forged("0-99999999999"), forged("0,0,0"),
		strings.Replace(forged("0"), "1", "1e9", 1), forged("0")[:30], strings.Repeat("[", 100000),
		strings.Replace(forged("0"), `"cpus"`, `"cpus":"7","cpus"`, 1)} {
		pod := a.forgedPod(fmt.Sprint("malformed", i))
		pod.Annotations[api.AllocationAnnotation] = text
		a.submit(pod)
	}
}

// mirror creates a pod that claims to be the mirror of a victim as a static pod.
func (a *attacker) mirror() {
	node, err := a.client.CoreV1().Nodes().Get(a.Context(), small0, metav1.GetOptions{})
	a.must(err)
	for i, hash := range []string{string(a.victims[0].UID), "x"} {
		pod := a.forgedPod(fmt.Sprint("mirror", i))
		pod.Annotations["kubernetes.io/config.mirror"] = hash
		pod.Annotations["kubernetes.io/config.hash"] = hash
		pod.Annotations["kubernetes.io/config.source"] = "file"
		controller := true
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: small0, UID: node.UID, Controller: &controller}}
		a.submit(pod)
	}
}

func (a *attacker) everyAnnotation() {
	values := map[string][]string{
		api.CPUBurstAnnotation:                      {`{"policy":"auto","burstPercent":10000,"quotaBurstSeconds":3600}`, "x", `{"policy":7}`},
		api.CPUPeriodAnnotation:                     {"1ms", "1s", "0", "-1s", "1h"},
		"koordinator.sh/cpuBurst":                   {`{"policy":"auto","cpuBurstPercent":10000}`},
		"alibabacloud.com/cpuBurst":                 {`{"policy":"cpuBurstOnly"}`},
		"pinfold.dev/full-cores":                    {"required", "x"},
		api.CPUPolicyAnnotation:                     {"static-burst", "none", "x"},
		api.CPUSetSchedulerAnnotation:               {"true", "false", "x"},
		"scheduling.koordinator.sh/resource-status": {`{"cpuset":"0-7"}`},
		"cpuset": {"0-7"},
	}
	n := 0
	for key, list := range values {
		for _, value := range list {
			n++
			pod := a.forgedPod(fmt.Sprint("word", n))
			pod.Annotations = map[string]string{key: value}
			pod.Labels = map[string]string{api.QoSLabel: []string{"BE", "LS", "x"}[n%3], "koordinator.sh/qosClass": "LSE"}
			a.submit(pod)
		}
	}
}

// askLate creates a pod with an allocation, which asks for CPUs only after it is bound.
func (a *attacker) askLate() {
	pod := a.forgedPod("late-asker")
	pod.Annotations = map[string]string{api.AllocationAnnotation: forged("0-7")}
	a.submit(pod)
	pod = a.forgedPod("without")
	pod.Annotations = nil
	a.submit(pod)
	for _, name := range []string{"late-asker", "without"} {
		if _, err := a.client.CoreV1().Pods(a.namespace).Get(a.Context(), name, metav1.GetOptions{}); err != nil {
			continue // rejected
		}
		a.edit(name, map[string]any{"cpuset-scheduler": "true"})
		a.edit(name, map[string]any{api.AllocationAnnotation: forged("0-7")})
	}
}

// askMeanwhile creates a pod that asks for CPUs while the scheduler binds it as one that does not.
func (a *attacker) askMeanwhile() {
	var work sync.WaitGroup
	for i := range 15 {
		pod := a.forgedPod(fmt.Sprint("race", i))
		pod.Annotations = map[string]string{api.AllocationAnnotation: forged("0-7")}
		pod.Spec.NodeName, pod.Spec.NodeSelector = "", map[string]string{corev1.LabelHostname: small0}
		a.submit(pod)
		work.Go(func() {
			time.Sleep(time.Duration(i) * time.Millisecond)
			text := []byte(`{"metadata":{"annotations":{"cpuset-scheduler":"true"}}}`)
			_, _ = a.tenant.CoreV1().Pods(a.namespace).Patch(a.Context(), pod.Name, types.MergePatchType, text, metav1.PatchOptions{})
		})
	}
	work.Wait()
}

// toggle gives CPUs back and asks for them again, while the scheduler gives them to others.
func (a *attacker) toggle() {
	a.place("toggled")
	a.entitled = 1
	for i := range 10 {
		a.edit("toggled", map[string]any{"cpuset-scheduler": nil})
		if i == 4 {
			a.create(asking("heir", 2, "")) // of three that are free while the tenant does not ask
			a.victims = append(a.victims, a.bound("heir"))
		}
		a.edit("toggled", map[string]any{"cpuset-scheduler": "true"})
		a.edit("toggled", map[string]any{"cpu-policy": "none"})
		a.edit("toggled", map[string]any{"cpu-policy": nil})
	}
}

// restore is like toggle, with the allocation itself.
func (a *attacker) restore() {
	text := a.place("restored").Annotations[api.AllocationAnnotation]
	a.entitled = 1
	for range 10 {
		a.edit("restored", map[string]any{api.AllocationAnnotation: nil})
		a.edit("restored", map[string]any{api.AllocationAnnotation: strings.Replace(text, `"version":1`, `"version":1,"x":2`, 1)})
		a.edit("restored", map[string]any{api.AllocationAnnotation: text})
	}
}

func (a *attacker) resizes() {
	a.place("resized")
	a.entitled = 1
	a.runsOwn("resized")
	for i := range 10 {
		cpus := []string{"8", "1", "2500m", "1m"}[i%4]
		a.patch("resized", types.StrategicMergePatchType, fmt.Appendf(nil,
			`{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":%[1]q},"limits":{"cpu":%[1]q}}}]}}`, cpus), "resize")
	}
}

// runsOwn waits until the simulated kubelet runs a pod, which is required for resizing it.
func (a *attacker) runsOwn(name string) {
	a.Helper()
	a.eventually("pod "+name+" runs", func() error { return a.reportRunning(a.namespace, name) })
}

// fill requests all of a node and bypasses the scheduler. Later pods then find no space, which a
// ResourceQuota prevents, but existing pods lose nothing.
func (a *attacker) fill() {
	pod := a.parse(asking("fill", 4, "nodeName: "+small0))
	pod.Annotations = nil
	a.submit(pod)
	a.must(a.client.CoreV1().Pods(a.namespace).DeleteCollection(a.Context(), *metav1.NewDeleteOptions(0), metav1.ListOptions{}))
}

// poseAsScheduler names leases as those of a scheduler: one of the tenant, and ones that do not
// exist, or cannot.
func (a *attacker) poseAsScheduler() {
	old := metav1.NewMicroTime(time.Now().Add(-time.Hour))
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "evil"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: new("evil"), LeaseDurationSeconds: new(int32(1)), RenewTime: &old}}
	api.SetVersion(lease, "v0.0.1")
	leases := a.tenant.CoordinationV1().Leases(a.namespace)
	_, err := leases.Create(a.Context(), lease, metav1.CreateOptions{})
	a.expectAnswer(err)
	a.Cleanup(func() { _ = leases.Delete(context.Background(), lease.Name, metav1.DeleteOptions{}) })
	for i, name := range []string{a.namespace + "/evil evil", "kube-system/kube-controller-manager x", "kube-system/none x", "../../nodes x", "none/none x", "/ /", "\x1b[2J x"} {
		pod := a.forgedPod(fmt.Sprint("posing", i))
		pod.Annotations = map[string]string{api.SchedulerAnnotation: name}
		pod.Labels = map[string]string{"app.kubernetes.io/name": []string{"pinfold-scheduler", "pinfold-agent"}[i%2]}
		a.submit(pod)
	}
}

func (a *attacker) ephemeral() {
	a.place("debugged")
	a.entitled = 1
	a.patch("debugged", types.StrategicMergePatchType,
		[]byte(`{"spec":{"ephemeralContainers":[{"name":"app2","image":"image","targetContainerName":"app"}]}}`), "ephemeralcontainers")
}

// forbidden checks that the role edit does not allow the operations on which all protection
// depends.
func (a *attacker) forbidden() {
	a.place("own")
	a.entitled = 1
	pods := a.tenant.CoreV1().Pods(a.namespace)
	ctx := a.Context()
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "own"}, Target: corev1.ObjectReference{Kind: "Node", Name: small0}}
	for what, try := range map[string]func() error{
		"bind":         func() error { return pods.Bind(ctx, binding, metav1.CreateOptions{}) },
		"write status": func() error { return a.patchAs(ctx, "own", `{"status":{"phase":"Running"}}`, "status") },
		"label the namespace": func() error {
			_, err := a.tenant.CoreV1().Namespaces().Patch(ctx, a.namespace, types.MergePatchType,
				[]byte(`{"metadata":{"labels":{"pinfold.dev/unprotected":"true"}}}`), metav1.PatchOptions{})
			return err
		},
		"edit a node": func() error {
			_, err := a.tenant.CoreV1().Nodes().Patch(ctx, small0, types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
			return err
		},
		"delete a victim": func() error {
			return a.tenant.CoreV1().Pods(a.home).Delete(ctx, "holder", metav1.DeleteOptions{})
		},
		"make himself administrator": func() error {
			_, err := a.tenant.RbacV1().RoleBindings(a.namespace).Create(ctx, &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: "admin"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}},
				metav1.CreateOptions{})
			return err
		},
	} {
		if err := try(); !apierrors.IsForbidden(err) {
			a.Errorf("the tenant may %s: %v", what, err)
		}
	}
}

func (a *attacker) patchAs(ctx context.Context, pod, text string, subresources ...string) error {
	_, err := a.tenant.CoreV1().Pods(a.namespace).Patch(ctx, pod, types.MergePatchType, []byte(text), metav1.PatchOptions{}, subresources...)
	return err
}
