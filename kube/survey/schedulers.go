package survey

import (
	"fmt"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/status"
	"pinfold.dev/pinfold/kube/api"
)

// defaultLease is the lease of a cluster's default scheduler.
var defaultLease = types.NamespacedName{Namespace: schedulerNamespace, Name: "kube-scheduler"}

// schedulers adds the schedulers of Pinfold: the leases that have its version.
func (a *assembly) schedulers() {
	if a.report.SchedulerPods = new(status.Replicas); a.unread(Pods) {
		a.report.SchedulerPods, a.report.Waiting = nil, nil
	}
	for _, pod := range a.Pods {
		if a.isOf(pod, schedulerLabel) {
			a.report.SchedulerPods.Total++
			if isReady(pod) {
				a.report.SchedulerPods.Ready++
			}
		}
	}
	for name, lease := range a.leases {
		if _, versioned := lease.Annotations[api.VersionAnnotation]; versioned && a.trusted[name.Namespace] && !a.isAgents(lease) {
			a.scheduler(lease)
		}
	}
	leads := slices.ContainsFunc(a.report.Schedulers, func(s status.Scheduler) bool { return s.State == status.Leading })
	if !leads && !a.unread(Leases) && !a.idleDeployments() && len(a.report.Schedulers) == 0 {
		a.noScheduler()
	}
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// isAgents reports whether a lease is that of an agent: it has the name of a node, or of its holder
// if that node was deleted. An agent can write no other lease.
func (a *assembly) isAgents(lease *coordinationv1.Lease) bool {
	return holderOf(lease) == lease.Name || a.nodes[lease.Name] != nil
}

func holderOf(lease *coordinationv1.Lease) string { return ptr.Deref(lease.Spec.HolderIdentity, "") }

// scheduler adds one scheduler.
func (a *assembly) scheduler(lease *coordinationv1.Lease) {
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
	case s.Version == "":
		s.State = status.Replaced
		a.add(status.Problem{Kind: status.SchedulerReplaced, Action: "stop that scheduler, and a replica of Pinfold's takes the lease; or, if Pinfold's was removed for good, delete the lease",
			Command: remove,
			Message: fmt.Sprintf("a scheduler that is not Pinfold's, %s, has taken the lease %s: it ignores which CPUs are exclusive", s.Holder, s.Lease)})
	case age < 0:
		s.State = status.Silent
		a.add(status.Problem{Kind: status.SchedulerSilent, Action: "synchronise the clocks of its node and the API server" + removed, Command: remove,
			Message: fmt.Sprintf("whether the scheduler %s leads is not known: it has renewed its lease %s %s in the future", s.Holder, s.Lease, quantity.Age(-age))})
	case age > valid:
		s.State = status.Silent
		a.add(status.Problem{Kind: status.SchedulerSilent, Action: "look at the scheduler's log" + removed, Command: remove,
			Message: fmt.Sprintf("the scheduler %s has not renewed its lease %s for %s (a renewal lasts %s), and no replica "+
				"has taken it. No pod is scheduled by it", s.Holder, s.Lease, quantity.Age(age), quantity.Age(valid))})
	}
	a.report.Schedulers = append(a.report.Schedulers, s)
}

// noScheduler adds the note that no lease is Pinfold's. That is right where the agents are installed alone.
func (a *assembly) noScheduler() {
	note := "no lease of a Pinfold scheduler is in namespaces " + strings.Join(a.trustedNamespaces(), ", ")
	if stock := a.leases[defaultLease]; stock != nil {
		note += fmt.Sprintf(" (%s is held by %s)", defaultLease, holderOf(stock))
	}
	if a.unread(Deployments) {
		note += ", and this user may not list its Deployments"
	}
	a.report.Notes = append(a.report.Notes, note+": another scheduler chooses nodes, without looking at the CPUs that pods will get there; "+
		"one without leader election, or with another --lease-namespace, cannot be seen here")
}
