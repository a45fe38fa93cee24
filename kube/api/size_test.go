package api

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/test/busy"
	"pinfold.dev/pinfold/test/need"
)

// largePod returns a bound pod with n init containers and n main ones, each of which the kubelet
// reports. Half of the init containers ask for a CPU and have it.
func largePod(n int) *corev1.Pod {
	pod := boundPod()
	a := Allocation{Version: allocationVersion, Node: "n", Policy: placement.Static}
	one := cpuList(1000)
	pod.Spec.Containers = nil
	for i := range n {
		init := corev1.Container{Name: fmt.Sprint("a-long-name-of-an-init-container-", i)}
		if init.Resources.Requests = cpuList(100); i%2 == 0 {
			init.Resources.Limits = one
			a.Containers = append(a.Containers, ContainerAllocation{Name: init.Name, CPUs: cpuset.Of(1), NUMANodes: []topology.NUMAID{0}})
		}
		main := corev1.Container{Name: fmt.Sprint("a-long-name-of-a-main-container-", i)}
		main.Resources.Requests = cpuList(100)
		pod.Spec.InitContainers, pod.Spec.Containers = append(pod.Spec.InitContainers, init), append(pod.Spec.Containers, main)
		status := corev1.ContainerStatus{Name: init.Name, AllocatedResources: cpuList(100)}
		pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, status)
		status.Name = main.Name
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status)
	}
	pod.Annotations[allocatedKey] = a.Encode()
	return pod
}

// What is done about a pod takes time in proportion to its containers, and to its annotations.
func TestLargePods(t *testing.T) {
	need.This(t, "the speed of this machine")
	for name, work := range map[string]func(*corev1.Pod){
		"request": func(pod *corev1.Pod) { EffectiveRequest(pod) },
		"parse":   func(pod *corev1.Pod) { _, _ = Parse(pod) },
		"same":    func(pod *corev1.Pod) { AskAlike(pod, pod) },
		"batch":   func(pod *corev1.Pod) { BatchRequest(pod) },
		"claim": func(pod *corev1.Pod) {
			if _, err := claimOfText(pod, nil); err != nil {
				t.Error(err)
			}
		},
		"other containers": func(pod *corev1.Pod) {
			other := *pod
			other.Spec.InitContainers = pod.Spec.InitContainers[1:]
			_, _ = claimOfText(&other, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			busy.Linear(t, 250, func(n int) func() {
				pod := largePod(n)
				for i := range n {
					pod.Annotations[fmt.Sprint("key", i)] = ""
				}
				return func() { work(pod) }
			})
		})
	}
}

// A pod may have MostPlaced containers that get CPUs, and any number of others.
func TestMostPlaced(t *testing.T) {
	for asking, want := range map[int]string{
		MostPlaced: "",
		MostPlaced + 1: `annotation pinfold.dev/cpuset-scheduler: "true" asks for CPUs, but 65 of its containers have a whole number of CPUs as ` +
			`limits.cpu: at most 64 may, so split the pod or give the others a fraction`,
	} {
		pod := largePod(2 * asking)
		_, err := Parse(pod)
		if got := fmt.Sprint(err); got != want && (err != nil || want != "") {
			t.Errorf("%d containers that ask: %s, want %q", asking, got, want)
		}
	}
}

// Messages do not grow with what a user writes.
func TestMessagesAreShort(t *testing.T) {
	long := strings.Repeat("x", 200<<10)
	for name, edit := range map[string]func(*corev1.Pod){
		"value":  func(p *corev1.Pod) { p.Annotations[CPUSetSchedulerAnnotation] = long },
		"policy": func(p *corev1.Pod) { p.Annotations[CPUPolicyAnnotation] = long },
		"mode":   func(p *corev1.Pod) { p.Annotations[CPUBurstAnnotation] = `{"policy":"` + long[:3<<10] + `"}` },
		"field":  func(p *corev1.Pod) { p.Annotations[CPUBurstAnnotation] = `{"policy":"auto","` + long[:3<<10] + `":1}` },
		"burst": func(p *corev1.Pod) {
			p.Annotations[CPUBurstAnnotation] = `{"policy":"auto"}` + strings.Repeat(" ", maxBurst)
		},
		"period":     func(p *corev1.Pod) { p.Annotations[CPUPeriodAnnotation] = strings.Repeat("1h", 100<<10) },
		"contradict": func(p *corev1.Pod) { p.Annotations["cpuset-scheduler"] = "false" },
		"no container": func(p *corev1.Pod) {
			p.Spec.Containers = nil
			for i := range 5000 {
				p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: fmt.Sprint("container-", i)})
			}
		},
		"limit": func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Limits[corev1.ResourceCPU] = resource.MustParse(strings.Repeat("9", 18))
		},
	} {
		pod := boundPod()
		edit(pod)
		_, parsed := Parse(pod)
		_, claimed := claimOfText(pod, nil)
		for _, err := range []error{parsed, claimed} {
			if text := fmt.Sprint(err); len(text) > 1500 {
				t.Errorf("%s: a message of %d bytes: %.100s", name, len(text), text)
			}
		}
		if parsed == nil && claimed == nil {
			t.Errorf("%s: no message", name)
		}
	}
}

func boundPod() *corev1.Pod {
	two := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "default", UID: "1", Annotations: map[string]string{CPUSetSchedulerAnnotation: "true",
			allocatedKey: `{"version":1,"node":"n","policy":"static","containers":[{"name":"main","cpus":"2-3","numaNodes":[0]}]}`}},
		Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: two, Limits: two}}}},
	}
}
