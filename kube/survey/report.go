package survey

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/core/status"
	"pinfold.dev/pinfold/kube/api"
)

// Report derives the state of Pinfold from the objects.
func (o *Objects) Report() *status.Report {
	a := assembly{Objects: o, report: &status.Report{
		Time: o.Time.UTC(), Schedulers: []status.Scheduler{}, Problems: []status.Problem{}, Waiting: []status.Waiting{},
		Nodes: []status.Node{}, Unread: []status.Unread{}, Notes: []string{},
	}}
	a.sortObjects()
	for _, name := range a.nodeNames() {
		a.node(name)
	}
	if o.Node == "" {
		a.schedulers()
		a.orphans()
		a.waiting()
		a.unplacedAgents()
	}
	a.missingAgents()
	for _, kind := range slices.Sorted(maps.Keys(o.Unread)) {
		if kind == DaemonSets || kind == Deployments {
			continue // notes say what follows
		}
		a.report.Unread = append(a.report.Unread, status.Unread{Resource: string(kind), Error: o.Unread[kind].Error()})
	}
	a.report.Sort()
	return a.report
}

// assembly is a Report in the making.
type assembly struct {
	*Objects
	report *status.Report

	nodes      map[string]*corev1.Node
	topologies map[string]*Topology
	leases     map[types.NamespacedName]*coordinationv1.Lease
	podsOn     map[string][]*corev1.Pod // by node; "" for pods that have none
	// trusted are the namespaces of leases and of Pinfold's pods, in which no tenant may write.
	trusted map[string]bool
}

func (a *assembly) sortObjects() {
	a.nodes, a.topologies = map[string]*corev1.Node{}, map[string]*Topology{}
	a.leases, a.podsOn = map[types.NamespacedName]*coordinationv1.Lease{}, map[string][]*corev1.Pod{}
	for _, node := range a.Nodes {
		a.nodes[node.Name] = node
	}
	for i := range a.Topologies {
		a.topologies[a.Topologies[i].Name] = &a.Topologies[i]
	}
	a.trusted = map[string]bool{}
	for _, namespace := range a.trustedNamespaces() {
		a.trusted[namespace] = true
	}
	for _, lease := range a.Leases {
		a.leases[types.NamespacedName{Namespace: lease.Namespace, Name: lease.Name}] = lease
	}
	for _, pod := range a.Pods {
		if !api.HasEnded(pod) {
			a.podsOn[pod.Spec.NodeName] = append(a.podsOn[pod.Spec.NodeName], pod)
		}
	}
}

// nodeNames returns the names of all nodes. If nodes could not be read, these are the nodes that
// have reported a topology.
func (a *assembly) nodeNames() []string {
	if a.unread(Nodes) {
		return slices.Sorted(maps.Keys(a.topologies))
	}
	return slices.Sorted(maps.Keys(a.nodes))
}

func (a *assembly) unread(kind Kind) bool { return a.Unread[kind] != nil }

// has reports whether some problems have one of a kind, about the node or one of its pods.
func has(problems []status.Problem, kind status.Kind, pod string) bool {
	return slices.ContainsFunc(problems, func(p status.Problem) bool { return p.Kind == kind && p.Pod == pod })
}

// isOf reports whether an object is of one of Pinfold's own programs, by its label, where no tenant may write.
func (a *assembly) isOf(o metav1.Object, program string) bool {
	return o.GetLabels()[programLabel] == program && a.trusted[o.GetNamespace()]
}

// maxMessage is the most bytes of a problem's message. It is above that of conditions.
const maxMessage = 2100

// add adds a problem.
func (a *assembly) add(p status.Problem) {
	p.Severity = cmp.Or(p.Severity, p.Kind.Severity())
	p.Message = api.Shorten(p.Message, maxMessage) // it may quote what a pod's author has written
	a.report.Problems = append(a.report.Problems, p)
}

func nameOf(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }

// age returns how long ago a lease was renewed, and for how long a renewal is valid. It is negative if
// the lease was renewed further in the future, which says nothing: a clock is wrong, or the lease is not
// of this time.
func (a *assembly) age(lease *coordinationv1.Lease) (age, valid time.Duration) {
	valid = defaultGrace
	if lease.Spec.LeaseDurationSeconds != nil {
		valid = time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
	}
	if lease.Spec.RenewTime == nil {
		return a.Time.Sub(lease.CreationTimestamp.Time), valid
	}
	if age = a.Time.Sub(lease.Spec.RenewTime.Time); age >= -valid {
		age = max(0, age)
	}
	return age, valid
}

// defaultGrace applies to leases that do not say how long a renewal is valid.
const defaultGrace = 2 * time.Minute

// splitName splits NAMESPACE/NAME.
func splitName(name string) types.NamespacedName {
	namespace, name, _ := strings.Cut(name, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}
