package control

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/dra"
)

// resize changes a limit, changes another field of the spec, or records that the kubelet has
// deferred or carried out the changes.
func (n *fakeNode) resize(command string, args []string) error {
	p := n.pods[args[0]].DeepCopy()
	n.pods[args[0]] = p
	switch command {
	case "edit":
		p.Generation++
		return nil
	case "deferred", "infeasible":
		p.Status.ObservedGeneration = p.Generation
		reason := map[string]string{"deferred": corev1.PodReasonDeferred, "infeasible": corev1.PodReasonInfeasible}[command]
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: reason})
		return nil
	case "resized":
		p.Status.ObservedGeneration = p.Generation
		p.Status.Conditions = slices.DeleteFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodResizePending })
		for i := range p.Status.ContainerStatuses {
			s := &p.Status.ContainerStatuses[i]
			s.Resources = resourcesOf(p, s.Name)
			s.AllocatedResources = s.Resources.Requests
		}
		return nil
	}
	name, limit, _ := strings.Cut(args[1], "=")
	p.Generation++
	for i := range p.Spec.Containers {
		if c := &p.Spec.Containers[i]; c.Name == name {
			amount, err := resource.ParseQuantity(limit)
			if command == "resize" {
				c.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: amount}
			}
			if command == "request" || c.Resources.Requests != nil {
				c.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: amount}
			}
			return err
		}
	}
	return fmt.Errorf("the pod has no such container")
}

// claim makes a pod use a claim for CPUs, as in "claim web app=4@numa-0", and gives it these, or looks
// whether it never gets them. The claim has the name of the pod, or of another one as in
// "claim web app=4@numa-0 of=other".
func (n *fakeNode) claim(command string, args []string) string {
	p := n.pods[args[0]]
	if p == nil {
		return "no such pod\n"
	}
	p = p.DeepCopy()
	n.pods[args[0]] = p
	owner := args[0]
	var request dra.Request
	for _, arg := range args[1:] {
		name, value, _ := strings.Cut(arg, "=")
		switch amount, device, on := strings.Cut(value, "@"); {
		case name == "of":
			owner = value
		case on:
			cpus, _ := strconv.Atoi(amount)
			device, full, _ := strings.Cut(device, ",")
			part := dra.Part{Container: name, CPUs: cpus, FullCores: placement.FullCores(full)}
			part.Result.Device = device
			for _, d := range dra.Devices(n.machine(), dra.ByNUMA) {
				if d.Name == device {
					part.Within = d.CPUs
				}
			}
			request.Parts = append(request.Parts, part)
		default:
			request.Shares = map[string]string{name: value}
		}
	}
	request.Claims = []api.ClaimRef{{Name: owner, UID: types.UID("claim-" + owner)}}
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "cpus", ResourceClaimName: &owner}}
	n.observe()
	var err error
	if command == "forfeit" {
		err = n.control.Forfeit(p.UID, request, nil)
	} else {
		err = n.control.Claim(n.now, p.UID, request)
	}
	if err != nil {
		return err.Error() + "\n"
	}
	return n.decide()
}

// setAsks makes a pod ask for CPUs, or no longer.
func (n *fakeNode) setAsks(pod, value string) {
	if p := n.pods[pod]; p != nil {
		p = p.DeepCopy()
		p.Annotations[api.CPUSetSchedulerAnnotation] = value
		n.pods[pod] = p
	}
}

// resourcesOf returns the resources of a container in a pod's spec.
func resourcesOf(p *corev1.Pod, container string) *corev1.ResourceRequirements {
	for i := range p.Spec.Containers {
		if c := &p.Spec.Containers[i]; c.Name == container {
			return c.Resources.DeepCopy()
		}
	}
	return nil
}

func (n *fakeNode) status(of string) error {
	pod, container, _ := strings.Cut(of, "/")
	if n.pods[pod] == nil || n.ids[of] == "" {
		return fmt.Errorf("no such container runs")
	}
	p := n.pods[pod].DeepCopy()
	p.Status.Phase = corev1.PodRunning
	resources := resourcesOf(p, container)
	for _, s := range p.Status.ContainerStatuses {
		if s.Name == container {
			resources = s.Resources
		}
	}
	p.Status.ContainerStatuses = slices.DeleteFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == container })
	p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: container, Resources: resources,
		ContainerID: "containerd://" + n.ids[of], State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
	n.pods[pod] = p
	return nil
}

// end ends a container. Its status changes at once.
func (n *fakeNode) end(of string) {
	pod, container, _ := strings.Cut(of, "/")
	n.kernel.remove(n.kernel.pathOf(of))
	n.control.Step(Event{Stopped: map[nodeplan.Ref]string{n.refOf(of): n.ids[of]}})
	delete(n.ids, of)
	if n.pods[pod] == nil {
		return
	}
	p := n.pods[pod].DeepCopy()
	for i := range p.Status.ContainerStatuses {
		if s := &p.Status.ContainerStatuses[i]; s.Name == container {
			s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
		}
	}
	n.pods[pod] = p
}

// makeGroup makes a pod's cgroup, which the agent notices at once.
func (n *fakeNode) makeGroup(pod string) string {
	n.observe()
	n.kernel.makePod(pod)
	n.addGroup(pod)
	return n.decide()
}

// idOf returns the kubelet's id of a pod.
func (n *fakeNode) idOf(pod string) string {
	if n.mirrors[pod] > 0 {
		return "hash" + pod
	}
	return "uid-" + pod
}

// mirror makes a pod a static one, or a new mirror pod of it.
func (n *fakeNode) mirror(pod string) {
	n.mirrors[pod]++
	p := n.pods[pod].DeepCopy()
	p.UID = types.UID(fmt.Sprintf("mirror-%d-%s", n.mirrors[pod], pod))
	p.Annotations["kubernetes.io/config.mirror"], p.Annotations["kubernetes.io/config.hash"] = n.idOf(pod), n.idOf(pod)
	n.pods[pod] = p
}

// ask has the agent ask the kubelet for its static pods, or try to.
func (n *fakeNode) ask(answer string) {
	e := Event{StaticPodsAsked: true, StaticPods: map[ledger.PodID]types.NamespacedName{}}
	for pod := range n.mirrors {
		e.StaticPods[ledger.PodID(n.idOf(pod))] = types.NamespacedName{Namespace: "default", Name: pod}
	}
	if answer == "fails" {
		e.StaticPods = nil
	}
	n.control.Step(e)
}
