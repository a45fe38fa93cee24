package survey

import (
	"fmt"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/status"
	"pinfold.dev/pinfold/kube/api"
)

// defaultLease is the lease of a cluster's default scheduler.
var defaultLease = types.NamespacedName{Namespace: schedulerNamespace, Name: "kube-scheduler"}

// schedulerOf returns the lease under which a pod was bound, and its holder at that time. They are
// empty if the pod was not bound by a scheduler of Pinfold with a lease.
func schedulerOf(pod *corev1.Pod) (lease types.NamespacedName, holder string) {
	name, holder, _ := strings.Cut(pod.Annotations[api.SchedulerAnnotation], " ")
	if pod.Spec.NodeName == "" || holder == "" {
		return types.NamespacedName{}, ""
	}
	return splitName(name), holder
}

// schedulers adds the schedulers of Pinfold: the leases that have its version, and those under which
// pods were bound.
func (a *assembly) schedulers() {
	bound := map[types.NamespacedName]map[string]bool{} // holders by lease
	for _, pod := range a.Pods {
		if lease, holder := schedulerOf(pod); holder != "" {
			if bound[lease] == nil {
				bound[lease] = map[string]bool{}
			}
			bound[lease][holder] = true
		}
		if pod.Labels[programLabel] == schedulerLabel {
			a.report.SchedulerPods.Total++
			if isReady(pod) {
				a.report.SchedulerPods.Ready++
			}
		}
	}
	for name, lease := range a.leases {
		_, versioned := lease.Annotations[api.VersionAnnotation]
		if !versioned && bound[name] == nil || isAgents(lease) {
			continue
		}
		a.scheduler(lease, bound[name])
	}
	if len(a.report.Schedulers) == 0 && !a.unread(Leases) {
		a.noScheduler()
	}
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// isAgents reports whether a lease is that of an agent: its holder is the node whose name it has.
func isAgents(lease *coordinationv1.Lease) bool {
	return holderOf(lease) == lease.Name
}

func holderOf(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// scheduler adds one scheduler. bound are the holders of its lease that have bound pods.
func (a *assembly) scheduler(lease *coordinationv1.Lease, bound map[string]bool) {
	age, valid := a.age(lease)
	s := status.Scheduler{Lease: lease.Namespace + "/" + lease.Name, State: status.Leading, Holder: holderOf(lease), Version: api.VersionOf(lease),
		Kubernetes: api.KubernetesVersionOf(lease), RenewalAge: age.Seconds(), Duration: valid.Seconds()}
	remove := fmt.Sprintf("kubectl -n %s delete lease %s", lease.Namespace, lease.Name)
	const removed = "; if this scheduler was removed for good, delete its lease"
	switch {
	case s.Holder == "":
		s.State = status.NoLeader
		a.add(status.Problem{Kind: status.SchedulerSilent, Action: "start the scheduler" + removed, Command: remove,
			Message: fmt.Sprintf("no scheduler holds the lease %s: the last one has stopped. No pod is scheduled by it", s.Lease)})
	case age > valid:
		s.State = status.Silent
		a.add(status.Problem{Kind: status.SchedulerSilent, Action: "look at the scheduler's log" + removed, Command: remove,
			Message: fmt.Sprintf("the scheduler %s has not renewed its lease %s for %s (a renewal lasts %s), and no replica "+
				"has taken it. No pod is scheduled by it", s.Holder, s.Lease, quantity.Age(age), quantity.Age(valid))})
	case s.Version == "" && !bound[s.Holder] && lease.Annotations[api.VersionAnnotation] != "":
		s.State = status.Replaced
		a.add(status.Problem{Kind: status.SchedulerReplaced, Action: "stop that scheduler; a replica of Pinfold's then takes the lease",
			Message: fmt.Sprintf("a scheduler that is not Pinfold's, %s, has taken the lease %s: it ignores which CPUs are exclusive", s.Holder, s.Lease)})
	}
	a.report.Schedulers = append(a.report.Schedulers, s)
}

// noScheduler adds the problem that no lease is Pinfold's.
func (a *assembly) noScheduler() {
	message := "no lease of a Pinfold scheduler was found in namespaces " + strings.Join(a.leaseNamespaces(), ", ")
	if stock := a.leases[defaultLease]; stock != nil {
		message += fmt.Sprintf("; %s is held by %s, which has bound no pod for Pinfold and is probably a stock kube-scheduler", defaultLease, holderOf(stock))
	}
	a.add(status.Problem{Kind: status.SchedulerMissing, Message: message + ". Pods that ask for CPUs are not placed on chosen ones",
		Action: "install the scheduler (docs/scheduler.md); one without leader election cannot be seen here"})
}

// waiting adds the pods that ask for CPUs and have no node.
func (a *assembly) waiting() {
	for _, pod := range a.podsOn[""] {
		if w, ok := a.waitingPod(pod); ok {
			a.report.Waiting = append(a.report.Waiting, w)
		}
	}
}

// waitingPod returns a pod without a node if it asks for CPUs. The annotations of a pod that asks
// can be wrong; then the scheduler's message says so.
func (a *assembly) waitingPod(pod *corev1.Pod) (status.Waiting, bool) {
	intent, err := api.Parse(pod)
	if err == nil && !intent.Asks() {
		return status.Waiting{}, false
	}
	w := status.Waiting{Pod: nameOf(pod), Scheduler: pod.Spec.SchedulerName, CPUs: intent.Ask.CPUs(), Policy: intent.Ask.Policy,
		Seconds: max(0, a.Time.Sub(pod.CreationTimestamp.Time)).Seconds()}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status != corev1.ConditionTrue {
			w.Reason, w.Message = c.Reason, c.Message
		}
	}
	return w, true
}
