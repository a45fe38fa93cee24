package survey

import (
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/core/status"
	"pinfold.dev/pinfold/kube/api"
)

// Report derives the state of Pinfold from the objects. Allocations count as for a scheduler and
// agents with these keys. Without keys all allocations count, and of colliding ones those that have
// a signature come first.
func (o *Objects) Report(keys *api.Keys) *status.Report {
	a := assembly{Objects: o, keys: keys, report: &status.Report{
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
	}
	for _, kind := range slices.Sorted(maps.Keys(o.Unread)) {
		a.report.Unread = append(a.report.Unread, status.Unread{Resource: string(kind), Error: o.Unread[kind].Error()})
	}
	if a.uncheckedSignatures && slices.ContainsFunc(a.report.Problems, func(p status.Problem) bool { return p.Kind == status.CPUConflict }) {
		a.report.Notes = append(a.report.Notes, "allocations are signed, and their signatures were not checked, so a forged one counts here: "+
			"give --allocation-keys, the file of public keys that the agents have")
	}
	a.report.Sort()
	return a.report
}

// assembly is a Report in the making.
type assembly struct {
	*Objects
	keys   *api.Keys
	report *status.Report

	nodes      map[string]*corev1.Node
	topologies map[string]*Topology
	leases     map[types.NamespacedName]*coordinationv1.Lease
	podsOn     map[string][]*corev1.Pod // by node; "" for pods that have none
	// trusted are the namespaces of leases and of Pinfold's pods, in which no tenant may write.
	trusted map[string]bool

	uncheckedSignatures bool
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
	a.trusted = map[string]bool{a.LeaseNamespace: true, schedulerNamespace: true}
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

// maxMessage is the most bytes of a problem's message. It is above that of conditions.
const maxMessage = 2104

// add adds a problem.
func (a *assembly) add(p status.Problem) {
	p.Severity = p.Kind.Severity()
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
const defaultGrace = 40 * time.Second

// splitName splits NAMESPACE/NAME.
func splitName(name string) types.NamespacedName {
	namespace, name, _ := strings.Cut(name, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}
