package history

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/core/qos"
	"pinfold.dev/pinfold/kube/api"
)

// create creates a pod, or deletes one if there are enough.
func (d *Driver) create(ctx context.Context) error {
	pod := d.draw()
	if len(d.pods) >= d.Pods {
		return d.delete(ctx, 0)
	}
	return d.submit(ctx, pod)
}

// replace deletes a pod if there are many, and creates one.
func (d *Driver) replace(ctx context.Context) error {
	pod := d.draw()
	if len(d.pods) >= d.Pods/2 {
		if err := d.delete(ctx, 0); err != nil {
			return err
		}
	}
	return d.submit(ctx, pod)
}

// submit creates a pod as the tenant.
func (d *Driver) submit(ctx context.Context, pod *corev1.Pod) error {
	name := podName{pod.Namespace, pod.Name, pod.Spec.NodeSelector[corev1.LabelHostname]}
	d.pods = append(d.pods, name)
	d.Log("create %s for %q: %v on %q", name, pod.Spec.SchedulerName, pod.Annotations, pod.Spec.NodeSelector[corev1.LabelHostname]+pod.Spec.NodeName)
	return createObject(ctx, d, d.Tenant.CoreV1().Pods(pod.Namespace).Create, pod)
}

func (d *Driver) pick() (podName, bool) {
	if len(d.pods) == 0 {
		return podName{}, false
	}
	return d.pods[d.Random.IntN(len(d.pods))], true
}

// draw returns a random pod.
func (d *Driver) draw() *corev1.Pod {
	d.made++
	annotations := []map[string]string{
		{"cpuset-scheduler": "true"}, {"cpuset-scheduler": "true"}, {"cpuset-scheduler": "true"},
		{"cpuset-scheduler": "true", "cpu-policy": "static-burst"},
		{api.CPUSetSchedulerAnnotation: "true", "pinfold.dev/full-cores": "required"},
		nil, nil,
	}
	zero := int64(0)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: Guarded, Name: fmt.Sprint("p", d.made), Labels: map[string]string{},
			Annotations: map[string]string{}},
		Spec: corev1.PodSpec{SchedulerName: d.SchedulerName, PriorityClassName: lowPriority, TerminationGracePeriodSeconds: &zero},
	}
	if d.Random.IntN(4) == 0 {
		pod.Namespace = Unguarded
	}
	for key, value := range annotations[d.Random.IntN(len(annotations))] {
		pod.Annotations[key] = value
	}
	if len(pod.Annotations) == 0 && d.Random.IntN(2) == 0 {
		pod.Labels[api.QoSLabel] = string(qos.BE)
	}
	pod.Spec.Containers = []corev1.Container{d.container("a", 1+d.Random.IntN(d.CPUs))}
	switch d.Random.IntN(5) {
	case 0:
		pod.Spec.Containers = append(pod.Spec.Containers, d.container("b", 1))
	case 1:
		fraction := d.container("b", 1)
		fraction.Resources.Limits[corev1.ResourceCPU] = resource.MustParse("1500m")
		pod.Spec.Containers = append(pod.Spec.Containers, fraction)
	case 2:
		pod.Spec.InitContainers = []corev1.Container{d.container("i", 1+d.Random.IntN(d.CPUs))}
	}
	if d.Stock != "" && d.Random.IntN(3) == 0 {
		pod.Spec.SchedulerName = d.Stock
	}
	if len(d.Allocators) > 0 && d.Random.IntN(4) > 0 { // else the admission policy may do that
		for i := range pod.Spec.Containers {
			pod.Spec.Containers[i].Resources.Requests = pod.Spec.Containers[i].Resources.Limits
		}
	}
	if d.Random.IntN(3) > 0 || len(d.Nodes) == 1 {
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: d.Nodes[d.Random.IntN(len(d.Nodes))]}
	}
	return pod
}

// container returns a container with a limit and a random request below it.
func (d *Driver) container(name string, cpus int) corev1.Container {
	request := *resource.NewMilliQuantity(int64(50+d.Random.IntN(500)), resource.DecimalSI)
	return corev1.Container{Name: name, Image: d.Image, Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: request},
		Limits:   corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(int64(cpus), resource.DecimalSI)},
	}}
}

func (d *Driver) delete(ctx context.Context, grace int64) error {
	name, ok := d.pick()
	if !ok {
		return nil
	}
	d.pods = slices.DeleteFunc(d.pods, func(p podName) bool { return p == name })
	d.Log("delete %s with a grace period of %d s", name, grace)
	return d.try(ctx, func() error {
		return d.Client.CoreV1().Pods(name.namespace).Delete(ctx, name.name, *metav1.NewDeleteOptions(grace))
	})
}

// patch changes a pod, as an administrator or as the tenant.
func (d *Driver) patch(ctx context.Context, name podName, asTenant bool, change any, subresources ...string) error {
	text, err := json.Marshal(change)
	if err != nil {
		return err
	}
	client := d.Client
	if asTenant {
		client = d.Tenant
	}
	d.Log("patch %s %v: %s", name, subresources, text)
	return d.try(ctx, func() error {
		_, err := client.CoreV1().Pods(name.namespace).Patch(ctx, name.name, types.StrategicMergePatchType, text,
			metav1.PatchOptions{}, subresources...)
		return err
	})
}

type object = map[string]any

// finish sets the phase of a running pod to Succeeded or Failed, as its kubelet would.
func (d *Driver) finish(ctx context.Context) error {
	name, ok := d.pick()
	phase := []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed}[d.Random.IntN(2)]
	if !ok {
		return nil
	}
	running := false
	if err := d.try(ctx, func() error {
		pod, err := d.Client.CoreV1().Pods(name.namespace).Get(ctx, name.name, metav1.GetOptions{})
		running = err == nil && pod.Status.Phase == corev1.PodRunning
		return err
	}); err != nil || !running {
		return err
	}
	return d.patch(ctx, name, false, object{"status": object{"phase": phase}}, "status")
}

// cease removes the annotations by which a pod asks for CPUs.
func (d *Driver) cease(ctx context.Context) error {
	name, ok := d.pick()
	if !ok {
		return nil
	}
	return d.patch(ctx, name, true, annotations(object{"cpuset-scheduler": nil, api.CPUSetSchedulerAnnotation: nil}))
}

func annotations(values object) object { return object{"metadata": object{"annotations": values}} }

// resize changes the request of a running pod, and, where the agent may allocate, also its limit.
// The API server resizes only containers whose resources the kubelet has reported.
func (d *Driver) resize(ctx context.Context) error {
	name, ok := d.pick()
	resources := object{"requests": object{"cpu": fmt.Sprintf("%dm", 50+d.Random.IntN(900))}}
	if !ok {
		return nil
	}
	if slices.Contains(d.Allocators, name.node) && d.Random.IntN(2) == 0 {
		cpus := object{"cpu": 1 + d.Random.IntN(d.CPUs)}
		resources = object{"requests": cpus, "limits": cpus}
	}
	if d.Simulated {
		if err := d.reportResources(ctx, name); err != nil {
			return err
		}
	}
	return d.patch(ctx, name, false, object{"spec": object{"containers": []any{object{"name": "a", "resources": resources}}}}, "resize")
}

// reportResources writes the resources of a pod's containers to its status, as its kubelet would.
func (d *Driver) reportResources(ctx context.Context, name podName) error {
	return d.try(ctx, func() error {
		pod, err := d.Client.CoreV1().Pods(name.namespace).Get(ctx, name.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for i := range pod.Status.ContainerStatuses {
			pod.Status.ContainerStatuses[i].Resources = &pod.Spec.Containers[i].Resources
		}
		_, err = d.Client.CoreV1().Pods(name.namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		return err
	})
}

// crash writes the status of a container that crashes repeatedly.
func (d *Driver) crash(ctx context.Context) error {
	name, ok := d.pick()
	restarts := d.Random.IntN(100)
	if !ok {
		return nil
	}
	return d.patch(ctx, name, false, object{"status": object{"containerStatuses": []any{object{
		"name": "a", "image": d.Image, "imageID": "", "ready": false, "restartCount": restarts,
		"state": object{"waiting": object{"reason": "CrashLoopBackOff"}}}}}}, "status")
}

// preempt creates a pod of high priority, for which the scheduler evicts others.
func (d *Driver) preempt(ctx context.Context) error {
	pod := d.draw()
	pod.Spec.PriorityClassName = highPriority
	pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: d.Nodes[d.Random.IntN(len(d.Nodes))]}
	return d.submit(ctx, pod)
}

// relabel changes a label that has no meaning, which causes an update event in the scheduler.
func (d *Driver) relabel(ctx context.Context) error {
	name, ok := d.pick()
	value := fmt.Sprint(d.Random.IntN(10))
	if !ok {
		return nil
	}
	return d.patch(ctx, name, true, object{"metadata": object{"labels": object{"history": value}}})
}

// forge edits annotations of an existing pod as the tenant.
func (d *Driver) forge(ctx context.Context) error {
	name, ok := d.pick()
	if !ok {
		return nil
	}
	values := []object{
		{api.CPUSetSchedulerAnnotation: "true", "cpuset-scheduler": nil, "cpu-policy": nil},
		{"cpu-policy": []string{"static", "static-burst", "none", "x"}[d.Random.IntN(4)]},
		{api.CPUBurstAnnotation: `{"policy":"auto","burstPercent":10000}`},
	}
	return d.patch(ctx, name, true, annotations(values[d.Random.IntN(len(values))]))
}

// createBound creates a pod that already has a node.
func (d *Driver) createBound(ctx context.Context) error {
	pod := d.draw()
	pod.Spec.NodeName, pod.Spec.NodeSelector = d.Nodes[d.Random.IntN(len(d.Nodes))], nil
	return d.submit(ctx, pod)
}
