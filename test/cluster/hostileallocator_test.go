package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/test/history"
)

// TestHostileTenantOfAllocator: on a node whose agent allocates, a tenant gets no more CPUs than its
// pods request, whatever it writes, and takes none from others. The tenant's namespace is one that the
// admission policy does not cover.
func TestHostileTenantOfAllocator(t *testing.T) {
	h := record(t, 1)
	node := h.newAllocator("exact-hostile")
	all := map[string]func(*agentAttacker){
		"forged allocations":     (*agentAttacker).forge,
		"asks and ceases":        (*agentAttacker).flip,
		"changes the policy":     (*agentAttacker).changePolicy,
		"resizes":                (*agentAttacker).resize,
		"long names":             (*agentAttacker).longNames,
		"names the node":         (*agentAttacker).nameNode,
		"mirror pods":            (*agentAttacker).mirror,
		"writes what agents may": (*agentAttacker).writeObjects,
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			a := &agentAttacker{newAttacker(begin(t), h.driver.Tenant), node, map[types.UID]cpuset.Set{}}
			for _, name := range []string{"one", "two"} {
				a.victim(name)
			}
			all[name](a)
			a.check()
			a.eventually("the attacker's pods are gone", func() error { return a.deletePods(t.Context(), a.namespace) })
			a.victim("late") // the attack has not used up what others request
			a.check()
		})
	}
}

// agentAttacker is a tenant, with pods of others on the node of an agent that allocates.
type agentAttacker struct {
	*attacker
	node *allocator
	own  map[types.UID]cpuset.Set // of the victims
}

// pod returns a pod that asks for CPUs of the node.
func (a *agentAttacker) pod(name, request, limit string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{api.CPUSetSchedulerAnnotation: "true"}},
		Spec: corev1.PodSpec{NodeSelector: map[string]string{corev1.LabelHostname: a.node.node}, TerminationGracePeriodSeconds: new(int64),
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, // of a node that has just become ready
			Containers: []corev1.Container{{Name: "app", Image: "image", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse(request)}, Limits: corev1.ResourceList{"cpu": resource.MustParse(limit)}}}}}}
}

// victim runs a pod of somebody else, which gets a CPU.
func (a *agentAttacker) victim(name string) {
	a.Helper()
	pod, err := a.podAPI().Create(a.Context(), a.pod(name, "1", "1"), metav1.CreateOptions{})
	a.must(err)
	a.gets(pod, 1)
	a.own[pod.UID] = a.given()[pod.UID]
}

// gets waits until the agent has given CPUs to a pod.
func (a *agentAttacker) gets(pod *corev1.Pod, cpus int) {
	a.Helper()
	a.eventually("the agent gives CPUs to "+pod.Name, func() error {
		if err := a.node.kubelet(a.Context()); err != nil {
			return err
		}
		if got := a.given()[pod.UID]; got.Len() != cpus {
			return fmt.Errorf("it has CPUs %s, want %d", got, cpus)
		}
		return nil
	})
}

// given returns what the agent has published.
func (a *agentAttacker) given() map[types.UID]cpuset.Set {
	a.Helper()
	_, state := a.machine(a.node.node)
	all := map[types.UID]cpuset.Set{}
	for uid, given := range state.Given.Pods {
		for _, c := range given.Containers {
			all[uid] = all[uid].Union(c.CPUs)
		}
	}
	return all
}

// check waits until the agent has carried out what it decided, and checks who has which CPUs then.
func (a *agentAttacker) check() {
	a.Helper()
	time.Sleep(time.Second / 2) // decided and published
	a.eventually("groups have the CPUs that were given", func() error {
		if err := a.node.kubelet(a.Context()); err != nil {
			return err
		}
		return a.node.agrees()
	})
	given := a.given()
	for uid, own := range a.own {
		if given[uid] != own {
			a.Errorf("a victim had CPUs %s and has %s", own, given[uid])
		}
	}
	pods, err := a.client.CoreV1().Pods(a.namespace).List(a.Context(), metav1.ListOptions{})
	a.must(err)
	for _, pod := range pods.Items {
		if has := given[pod.UID].Len(); int64(has)*1000 > requestOf(&pod) || has > 0 && pod.Spec.NodeName != a.node.node {
			a.Errorf("pod %s of the attacker on %q has %d CPUs, and requests %d thousandths", pod.Name, pod.Spec.NodeName, has, requestOf(&pod))
		}
	}
}

// forge claims the CPUs of a victim, with a request that does not cover them.
func (a *agentAttacker) forge() {
	for uid, own := range a.own {
		for i, request := range []string{"10m", "1"} {
			pod := a.pod(fmt.Sprintf("forged-%d-%.8s", i, uid), request, "1")
			pod.Annotations[api.AllocationAnnotation] = strings.ReplaceAll(forged(own.String()), small0, a.node.node)
			a.submit(pod)
			pod.Name, pod.Spec.NodeName, pod.Spec.NodeSelector = pod.Name+"-named", a.node.node, nil
			a.submit(pod)
		}
	}
}

// runs runs a pod of the attacker to which the agent gives a CPU.
func (a *agentAttacker) runs(name string) {
	a.Helper()
	a.submit(a.pod(name, "1", "1"))
	a.gets(a.boundOwn(name), 1)
}

func (a *agentAttacker) flip() {
	a.runs("flips")
	for i := range 1000 {
		if a.edit("flips", map[string]any{api.CPUSetSchedulerAnnotation: []any{nil, "true", "false", "x"}[i%4]}); i%100 == 0 {
			a.must(a.node.kubelet(a.Context()))
		}
	}
	a.edit("flips", map[string]any{api.CPUSetSchedulerAnnotation: "true"})
	a.gets(a.boundOwn("flips"), 1)
}

func (a *agentAttacker) changePolicy() {
	a.runs("changes")
	for i := range 200 {
		a.edit("changes", map[string]any{api.CPUPolicyAnnotation: []any{"static-burst", "static", "none", "x", nil}[i%5],
			api.FullCoresAnnotation: []any{"required", nil, "x"}[i%3]})
	}
}

// resize requests less than what the pod was given, and more than the node has. The role edit does
// not include that.
func (a *agentAttacker) resize() {
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

// longNames runs pods whose allocation would be large.
func (a *agentAttacker) longNames() {
	for n, containers := range []int{4, 256} {
		pod := a.pod(fmt.Sprint("long", n), "10m", "1")
		one := pod.Spec.Containers[0]
		pod.Spec.Containers = nil
		for i := range containers {
			one.Name = fmt.Sprintf("%060d%03d", 0, i)
			pod.Spec.Containers = append(pod.Spec.Containers, one)
		}
		pod.Spec.SchedulerName, pod.Spec.NodeName = "none", a.node.node // whose requests no policy raises
		a.submit(pod)
	}
}

// nameNode bypasses the scheduler, which counts requests. The kubelet counts them, too.
func (a *agentAttacker) nameNode() {
	for i, request := range []string{"100", "8", "7", "1", "1m"} {
		pod := a.pod(fmt.Sprint("named", i), request, map[bool]string{true: "100", false: request}[request == "1m"])
		pod.Spec.NodeName, pod.Spec.NodeSelector = a.node.node, nil
		if a.submit(pod); i%2 == 0 {
			a.must(a.node.kubelet(a.Context()))
		}
	}
}

// mirror poses as the copy of a static pod, and of a victim.
func (a *agentAttacker) mirror() {
	node, err := a.client.CoreV1().Nodes().Get(a.Context(), a.node.node, metav1.GetOptions{})
	a.must(err)
	for i, hash := range append(slices.Collect(maps.Keys(a.own)), "x") {
		pod := a.pod(fmt.Sprint("mirror", i), "10m", "2")
		pod.Spec.NodeName, pod.Spec.NodeSelector = a.node.node, nil
		for _, key := range []string{"mirror", "hash", "source"} {
			pod.Annotations["kubernetes.io/config."+key] = string(hash)
		}
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, Controller: new(true)}}
		a.submit(pod)
	}
}

// writeObjects tries to publish allocations in the agent's place.
func (a *agentAttacker) writeObjects() {
	config := rest.CopyConfig(a.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: history.TenantUser, Groups: []string{"system:authenticated"}}
	objects, ctx := a.as(config).topologies, a.Context()
	mine := a.topology(a.node.node)
	for what, try := range map[string]func() error{
		"read":   func() error { _, err := objects.Get(ctx, mine.Name, metav1.GetOptions{}); return err },
		"update": func() error { _, err := objects.Update(ctx, mine, metav1.UpdateOptions{}); return err },
		"create": func() error {
			_, err := objects.Create(ctx, &nodetopology.NodeTopology{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, metav1.CreateOptions{})
			return err
		},
		"delete": func() error { return objects.Delete(ctx, mine.Name, metav1.DeleteOptions{}) },
	} {
		if err := try(); !apierrors.IsForbidden(err) {
			a.Errorf("the tenant may %s a topology: %v", what, err)
		}
	}
}
