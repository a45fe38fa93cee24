// Package controltest has the pods of scenarios of package control.
package controltest

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/kube/api"
)

// Pod returns a pod as it is bound: a name, containers, and settings; see the scenarios of package
// control. If containers have CPUs, it also returns the allocation.
func Pod(args []string, bound time.Time) (*corev1.Pod, api.Allocations, error) {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: args[0], Namespace: "default", UID: types.UID("uid-" + args[0]), Generation: 1},
		Spec:       corev1.PodSpec{NodeName: "n1"},
		Status: corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBurstable, ObservedGeneration: 1,
			Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(bound)}}},
	}
	p.Annotations = map[string]string{}
	var placed []string
	policy := "static"
	for _, arg := range args[1:] {
		name, rest, _ := strings.Cut(arg, "=")
		if key := annotationKeys[name]; key != "" {
			p.Annotations[key] = rest
			continue
		}
		if name == "tier" {
			p.Status.QOSClass = corev1.PodQOSClass(rest)
			continue
		}
		if name == "qos" {
			p.Labels = map[string]string{api.QoSLabel: rest}
			continue
		}
		limit, cpus, asks := strings.Cut(rest, "@")
		c := corev1.Container{Name: name}
		if limit != "-" {
			amount, err := resource.ParseQuantity(limit)
			if err != nil {
				return nil, nil, err
			}
			c.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: amount}
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
		if how := cpus[:min(1, len(cpus))]; how == "?" || how == "=" {
			if how == "?" {
				p.Annotations[api.CPUSetSchedulerAnnotation] = "true"
			}
			request := cpus[1:]
			amount, err := resource.ParseQuantity(cmp.Or(request, limit))
			if err != nil {
				return nil, nil, err
			}
			p.Spec.Containers[len(p.Spec.Containers)-1].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: amount}
			continue
		}
		if asks {
			p.Spec.Containers[len(p.Spec.Containers)-1].Resources.Requests = c.Resources.Limits
		}
		if nodes, burst := strings.CutPrefix(cpus, "node"); burst {
			policy = "static-burst"
			placed = append(placed, fmt.Sprintf(`{"name":%q,"numaNodes":[%s]}`, name, nodes))
		} else if asks {
			placed = append(placed, fmt.Sprintf(`{"name":%q,"cpus":%q,"numaNodes":[0]}`, name, cpus))
		}
	}
	if len(placed) == 0 {
		return p, nil, nil
	}
	p.Annotations[api.CPUSetSchedulerAnnotation], p.Annotations[api.CPUPolicyAnnotation] = "true", policy
	allocation, err := api.DecodeAllocation(fmt.Sprintf(`{"version":1,"node":"n1","policy":%q,"containers":[%s],"time":%q}`,
		policy, strings.Join(placed, ","), bound.UTC().Format(time.RFC3339Nano)))
	return p, api.Allocations{p.UID: allocation}, err
}

// annotationKeys are the keys of annotations, by their names in scenarios.
var annotationKeys = map[string]string{"burst": api.CPUBurstAnnotation, "koordinator": "koordinator.sh/cpuBurst", "period": api.CPUPeriodAnnotation,
	"policy": api.CPUPolicyAnnotation, "full-cores": api.FullCoresAnnotation, "move": api.MoveAnnotation}
