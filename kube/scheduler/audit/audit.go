// Package audit reports changes to the books of nodes that did not come from this scheduler: manual
// edits, forced deletions, other schedulers. It looks at a node, outside the scheduling cycle,
// after every change of its pods' entitlements, its topology or its reserved amount, and reports
// each problem once, as events about pods and in the log.
//
//	a, err := audit.New(ctx, handle, audit.Options{...})
//	a.Activate()          // when this replica begins to schedule
//	a.NodeChanged("n1")   // has reported another topology
package audit

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/apis/core/validation"

	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/scheduler/agents"
	"pinfold.dev/pinfold/kube/scheduler/informer"
)

// Reasons of events about bound pods.
const (
	// Conflict: the pod loses a CPU to another one.
	Conflict = "CPUConflict"
	// Offline: some of the pod's CPUs are offline.
	Offline = "CPUOffline"
	// Invalid: the pod's allocation is missing or invalid.
	Invalid = "CPUAllocationInvalid"
)

// Delay collects the changes of a node before it is audited.
const Delay = 500 * time.Millisecond

// nodeIndex is an index of the scheduler's informer: pods by node.
const nodeIndex = "pinfold.dev/node"

// Options are what an auditor compares pods with.
type Options struct {
	Reports *agents.Reports
	// Decided reports whether a pod was bound as this scheduler has decided. before is the pod as it
	// was before it was bound.
	Decided   func(before, bound *corev1.Pod) bool
	Keys      *api.Keys
	MinShared int
	Delay     time.Duration
}

// Auditor audits nodes.
type Auditor struct {
	Options
	log    klog.Logger
	events func(pod *corev1.Pod, reason, text string)
	pods   cache.Indexer
	nodes  corelisters.NodeLister
	queue  workqueue.TypedDelayingInterface[string] // names of nodes
	busy   atomic.Int32                             // audits in progress
	active atomic.Bool                              // see Active

	mu       sync.Mutex
	reported map[string]string // the last reports: pod/UID, overflow/NODE and stale/NODE
}

// New returns an auditor that follows the scheduler's informers until ctx ends.
func New(ctx context.Context, handle fwk.Handle, o Options) (*Auditor, error) {
	informers := handle.SharedInformerFactory().Core().V1()
	pods, nodes := informers.Pods().Informer(), informers.Nodes()
	err := pods.AddIndexers(cache.Indexers{nodeIndex: func(obj any) ([]string, error) {
		if pod, ok := obj.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
			return []string{pod.Spec.NodeName}, nil
		}
		return nil, nil
	}})
	if err != nil {
		return nil, fmt.Errorf("index pods by node: %w", err)
	}
	a := &Auditor{Options: o, log: klog.FromContext(ctx), pods: pods.GetIndexer(), nodes: nodes.Lister(),
		queue: workqueue.NewTypedDelayingQueue[string](), reported: map[string]string{},
		events: func(pod *corev1.Pod, reason, text string) {
			handle.EventRecorder().Eventf(pod, nil, corev1.EventTypeWarning, reason, "Scheduling", "%s", api.Shorten(text, validation.NoteLengthLimit))
		}}
	if _, err = pods.AddEventHandler(informer.Handlers(a.podChanged, a.podGone)); err != nil {
		return nil, fmt.Errorf("follow pods: %w", err)
	}
	if _, err = nodes.Informer().AddEventHandler(informer.Handlers(a.reservedChanged, a.nodeGone)); err != nil {
		return nil, fmt.Errorf("follow nodes: %w", err)
	}
	go a.run()
	go func() { <-ctx.Done(); a.queue.ShutDown() }()
	return a, nil
}

// Activate is called in every scheduling cycle. The first call has all nodes audited.
func (a *Auditor) Activate() {
	if a.active.Load() || a.active.Swap(true) {
		return
	}
	for _, node := range a.Reports.Names() {
		a.NodeChanged(node)
	}
}

// Active reports whether this replica has begun to schedule. All replicas follow the cluster, but
// only the leader reports, changes nodes and evicts pods.
func (a *Auditor) Active() bool { return a.active.Load() }

// NodeChanged has a node audited.
func (a *Auditor) NodeChanged(node string) {
	if a.active.Load() {
		a.queue.AddAfter(node, a.Delay)
	}
}

// Idle reports whether no audit is waiting or in progress.
func (a *Auditor) Idle() bool { return a.queue.Len() == 0 && a.busy.Load() == 0 }

func (a *Auditor) podChanged(before, pod *corev1.Pod) {
	if pod.Spec.NodeName == "" {
		return
	}
	switch {
	case before == nil: // new to this scheduler
	case before.Spec.NodeName != "":
		if api.SameEntitlement(before, pod) && api.EffectiveRequest(before) == api.EffectiveRequest(pod) {
			return
		}
	case a.Decided(before, pod):
		// Decided from the books, so it is consistent with them. Anything that was missing in them
		// is audited when it arrives.
		return
	}
	a.NodeChanged(pod.Spec.NodeName)
}

func (a *Auditor) podGone(pod *corev1.Pod) {
	a.changed("pod/"+string(pod.UID), "")
	if pod.Spec.NodeName != "" {
		a.NodeChanged(pod.Spec.NodeName)
	}
}

// reservedChanged audits a new node and one with another reserved amount.
func (a *Auditor) reservedChanged(before, node *corev1.Node) {
	if before == nil || api.Reserved(before) != api.Reserved(node) || before.UID != node.UID {
		a.NodeChanged(node.Name)
	}
}

func (a *Auditor) nodeGone(node *corev1.Node) {
	a.changed("overflow/"+node.Name, "")
	a.changed("stale/"+node.Name, "")
}

func (a *Auditor) run() {
	for {
		node, shutdown := a.queue.Get()
		if shutdown {
			return
		}
		a.busy.Add(1)
		a.audit(node)
		a.queue.Done(node)
		a.busy.Add(-1)
	}
}

// PodsOn returns the pods of a node, in any order.
func (a *Auditor) PodsOn(node string) (pods []*corev1.Pod, err error) {
	objects, err := a.pods.ByIndex(nodeIndex, node)
	for _, object := range objects {
		if pod, ok := object.(*corev1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	return pods, err
}

// audit reports the problems of one node and its pods.
func (a *Auditor) audit(name string) {
	report := a.Reports.Named(name)
	node, err := a.nodes.Get(name)
	if err != nil || !report.Usable() {
		return // audited when the node and a usable topology are there
	}
	if !report.IsOf(node.UID) {
		if a.changed("stale/"+name, string(node.UID+" "+report.Owner)) {
			a.log.Info("A NodeTopology is about an earlier node of the same name; it counts as not reported", "node", name,
				"uid", node.UID, "reportedUID", report.Owner)
		}
		return
	}
	a.changed("stale/"+name, "")
	onNode, err := a.PodsOn(name)
	if err != nil {
		a.log.Error(err, "Cannot list the pods of a node", "node", name)
		return
	}
	pods, wrong := map[ledger.PodID]*corev1.Pod{}, map[ledger.PodID]bool{}
	tell := func(id ledger.PodID, reason, text string) {
		wrong[id] = true
		if a.changed("pod/"+string(pods[id].UID), text) {
			a.events(pods[id], reason, text)
		}
	}
	var claims []ledger.Claim
	for _, pod := range onNode {
		claim, _, err := report.Given().ClaimAndAllocation(a.Keys, pod, report.Machine())
		if pods[claim.ID] = pod; err != nil {
			tell(claim.ID, Invalid, err.Error())
		}
		claims = append(claims, claim)
	}
	podName := func(id ledger.PodID) string { return klog.KObj(pods[id]).String() }
	books := ledger.New(report.Index, ledger.Config{Reserved: api.Reserved(node), ReservedCPUs: report.State.ReservedCPUs, MinShared: a.MinShared}, claims...)
	for _, c := range books.Conflicts() {
		tell(c.ID, Conflict, c.Describe(podName))
	}
	for _, o := range books.Offline() {
		tell(o.Pod, Offline, o.Describe(podName))
	}
	for id, pod := range pods {
		if !wrong[id] {
			a.changed("pod/"+string(pod.UID), "")
		}
	}
	var broken []string
	for _, o := range books.Overflow() {
		broken = append(broken, o.String())
	}
	switch overflow := strings.Join(broken, "; "); {
	case !a.changed("overflow/"+name, overflow):
	case overflow == "":
		a.log.Info("A node's CPUs are no longer overcommitted", "node", name)
	default:
		a.log.Info("A node's CPUs are overcommitted; the scheduler adds no more pods to them", "node", name, "overflow", overflow)
	}
}

// changed stores a report and returns false if it repeats the last one with this key. "" means that
// there is no problem.
func (a *Auditor) changed(key, text string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.reported[key] == text {
		return false
	}
	if a.reported[key] = text; text == "" {
		delete(a.reported, key)
	}
	return true
}
