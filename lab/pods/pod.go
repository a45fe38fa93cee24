package pods

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/experiment"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/lab/localnode"
)

// Spec is a program to run.
type Spec struct {
	Name  string // of the pod
	Image string
	Args  []string
	Dir   string // of this machine, which the program sees at the same path; "": none
	// Service has the settings, with the amounts of this machine.
	Service experiment.Service
}

// ownLabel is on all pods of experiments, so that those of a killed run can be found.
const ownLabel = "pinfold.dev/lab"

// request is the CPU request in thousandths of a pod that is not a BestEffort pod. All pods have
// the same, so they have the same weight.
const request = 100

// Unsupported returns why a service cannot run as a pod with its settings, "" if it can.
func Unsupported(s experiment.Service) string {
	switch {
	case s.Budget > 0:
		return "a budget is a setting of the agent (--batch-percent), not of a pod"
	case s.CPUs.Value > 0:
		return "a pod cannot choose its number of CPUs without a policy"
	case s.Priority.OfNode():
		return "the mechanism is a setting of the agent (--batch-priority), not of a pod"
	case s.Priority != "" && s.Limit.Value > 0:
		return "a BestEffort pod has no limit"
	}
	return ""
}

// milli returns the limit in thousandths of a CPU, 0 if there is none.
func (s Spec) milli() int64 {
	limits := s.Service.Limits()
	switch {
	case limits.Quota == bandwidth.Unlimited:
		return 0
	case s.Service.Policy != "": // the scheduler wants whole CPUs
		return 1000 * int64(s.Service.Limit.Count())
	}
	return int64((1000*limits.Quota + limits.Period/2) / limits.Period)
}

// pod returns the pod.
func (s Spec) pod() (*corev1.Pod, error) {
	annotations, err := s.annotations()
	if err != nil {
		return nil, err
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name, Labels: map[string]string{ownLabel: "true"}, Annotations: annotations},
		Spec: corev1.PodSpec{
			Containers:                    []corev1.Container{{Name: "program", Image: s.Image, Args: s.Args, ImagePullPolicy: corev1.PullIfNotPresent, Resources: s.resources()}},
			NodeSelector:                  map[string]string{corev1.LabelHostname: localnode.Name},
			HostNetwork:                   true,
			RestartPolicy:                 corev1.RestartPolicyNever,
			EnableServiceLinks:            new(false),
			AutomountServiceAccountToken:  new(false),
			TerminationGracePeriodSeconds: new(int64(1)),
		},
	}
	if s.Service.Priority == experiment.Idle {
		pod.Labels[api.QoSLabel] = string(nodeplan.BE)
	}
	if s.Dir != "" {
		pod.Spec.Volumes = []corev1.Volume{{Name: "site", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: s.Dir}}}}
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "site", MountPath: s.Dir}}
	}
	return pod, nil
}

// annotations returns the annotations of the settings. They exclude what the node's defaults would
// add.
func (s Spec) annotations() (map[string]string, error) {
	all := map[string]string{}
	if s.Service.Policy != "" {
		all[api.CPUSetSchedulerAnnotation], all[api.CPUPolicyAnnotation] = "true", string(s.Service.Policy)
	}
	if s.milli() == 0 {
		return all, nil
	}
	if s.Service.Period.Duration != 0 {
		all[api.CPUPeriodAnnotation] = s.Service.Period.String()
	}
	value := map[string]any{"policy": s.burst()}
	if s.Service.Burst > 0 {
		value["burstPercent"] = s.burstPercent()
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("annotation %s: %w", api.CPUBurstAnnotation, err)
	}
	all[api.CPUBurstAnnotation] = string(text)
	return all, nil
}

// burst returns the burst policy.
func (s Spec) burst() burst.Mode {
	switch {
	case s.Service.Raise && s.Service.Burst > 0:
		return burst.Auto
	case s.Service.Raise:
		return burst.Quota
	case s.Service.Burst > 0:
		return burst.Kernel
	}
	return burst.None
}

// burstPercent returns the burst in percent of the quota.
func (s Spec) burstPercent() int { return int(100*s.Service.Burst + 0.5) }

// resources returns the requests and limits. Services with a priority are BestEffort pods.
func (s Spec) resources() (r corev1.ResourceRequirements) {
	if s.Service.Priority != "" {
		return r
	}
	r.Requests = corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(request, resource.DecimalSI)}
	if milli := s.milli(); milli > 0 {
		r.Limits = corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(milli, resource.DecimalSI)}
		r.Requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(min(request, milli), resource.DecimalSI)
	}
	return r
}

// limits returns the settings that the kernel should have for the container.
func (s Spec) limits() bandwidth.Limits {
	limits := s.Service.Limits()
	if s.milli() == 0 || s.Service.Policy == placement.Static {
		return bandwidth.Limits{Quota: bandwidth.Unlimited, Period: limits.Period}
	}
	limits.Quota = (time.Duration(s.milli()) * limits.Period / 1000).Truncate(time.Microsecond)
	limits.Burst = (limits.Quota / 100 * time.Duration(s.burstPercent())).Truncate(time.Microsecond)
	return limits
}

// missing returns what is not in force yet, "" if everything is.
func (s Spec) missing(found bandwidth.Limits, cpus int, idle bool) string {
	want := s.limits()
	switch {
	case s.Service.Policy == placement.Static && cpus != s.Service.Limit.Count():
		return "it has " + strconv.Itoa(cpus) + " CPUs instead of " + strconv.Itoa(s.Service.Limit.Count()) + " of its own"
	case s.Service.Priority == experiment.Idle && !idle:
		return "its priority is not idle: start the node with --agent-flag=--batch-priority=idle"
	case s.Service.Raise && found.Quota != bandwidth.Unlimited: // it changes
		return ""
	case found.Quota != want.Quota, want.Quota != bandwidth.Unlimited && (found.Period != want.Period || found.Burst != want.Burst):
		return fmt.Sprintf("it has the quota %v per %v and the burst %v instead of %v per %v and %v", found.Quota, found.Period, found.Burst, want.Quota, want.Period, want.Burst)
	}
	return ""
}
