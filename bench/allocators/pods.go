package main

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/kube/api"
)

// mix is how many CPUs pods ask for: every number from least to most is equally likely.
type mix struct {
	name        string
	least, most int
}

// mixes returns the mixes on a machine. The largest pods ask for half of a NUMA node.
func mixes(h *host) []mix {
	return []mix{{"small", 1, 4}, {"mixed", 1, 16}, {"large", 4, h.machine.NUMANodes[0].CPUs.Len() / 2}}
}

func (m mix) draw(rng *rand.Rand) int { return m.least + rng.IntN(m.most-m.least+1) }

// event is the arrival of a pod, or its end.
type event struct {
	pod     int // in the order of arrival
	cpus    int
	ends    bool
	counted bool
}

// load is how many thousandths of the CPUs the pods of a workload ask for.
const load = 875

// workload returns the events until n counted pods have come to a cluster. No pod of the first
// ones, which fill it, is counted.
func workload(rng *rand.Rand, m mix, capacity, n int) (events []event) {
	var live []event
	used, full := 0, false
	for pod := 0; n > 0; pod++ {
		came := event{pod: pod, cpus: m.draw(rng)}
		for (used+came.cpus)*1000 > capacity*load {
			at := rng.IntN(len(live))
			gone := live[at]
			live[at] = live[len(live)-1]
			live = live[:len(live)-1]
			used -= gone.cpus
			gone.ends, full = true, true
			events = append(events, gone)
		}
		if came.counted = full; full {
			n--
		}
		used += came.cpus
		events, live = append(events, came), append(live, came)
	}
	return events
}

const containerName = "app"

// newPod returns a pod that asks for CPUs. The annotation tells only Pinfold.
func newPod(number, attempt, cpus int) *corev1.Pod {
	name := fmt.Sprintf("pod-%d-%d", number, attempt)
	amounts := corev1.ResourceList{
		corev1.ResourceCPU:    quantity(cpus),
		corev1.ResourceMemory: *resource.NewQuantity(int64(cpus)<<30, resource.BinarySI),
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault, UID: types.UID(name), ResourceVersion: "1",
			Annotations: map[string]string{api.CPUSetSchedulerAnnotation: "true"}},
		Spec: corev1.PodSpec{
			SchedulerName: corev1.DefaultSchedulerName,
			Containers: []corev1.Container{{Name: containerName,
				Resources: corev1.ResourceRequirements{Requests: amounts, Limits: amounts}}},
		},
	}
}
