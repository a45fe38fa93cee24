package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/apis/core/validation"

	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// auditDelay collects the changes of a node before it is audited.
const auditDelay = 500 * time.Millisecond

// nodeIndex is an index of the scheduler's informer: pods by node.
const nodeIndex = "pinfold.dev/node"

// auditor reports changes to the books that did not come from this scheduler: manual edits, forced
// deletions, other schedulers. It audits a node, outside the scheduling cycle, after every change
// of its pods' entitlements, its topology or its reserved amount, and reports each problem once.
type auditor struct {
	ctx          context.Context //nolint:containedctx // of the scheduler, for its queue's workers
	log          klog.Logger
	handle       fwk.Handle
	topologies   *topologies
	reservations *reservations
	minShared    int
	keys         *api.Keys
	pods         cache.Indexer
	nodes        corelisters.NodeLister
	queue        workqueue.TypedDelayingInterface[string] // names of nodes
	delay        time.Duration
	busy         atomic.Int32 // audits in progress

	// active is true when this replica has begun to schedule. All replicas follow the cluster, but
	// only the leader reports.
	active atomic.Bool

	mu       sync.Mutex
	reported map[string]string // the last reports: pod/UID, overflow/NODE and stale/NODE
}

// changed stores a report and returns false if it repeats the last one with this key. "" means that
// there is no problem.
func (a *auditor) changed(key, text string) bool {
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

func newAuditor(ctx context.Context, handle fwk.Handle, topologies *topologies, reservations *reservations, minShared int, keys *api.Keys) (*auditor, error) {
	pods, nodes := handle.SharedInformerFactory().Core().V1().Pods().Informer(), handle.SharedInformerFactory().Core().V1().Nodes()
	err := pods.AddIndexers(cache.Indexers{nodeIndex: func(obj any) ([]string, error) {
		if pod, ok := obj.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
			return []string{pod.Spec.NodeName}, nil
		}
		return nil, nil
	}})
	if err != nil {
		return nil, fmt.Errorf("index pods by node: %w", err)
	}
	a := &auditor{
		ctx: ctx, log: klog.FromContext(ctx), handle: handle, topologies: topologies, reservations: reservations,
		minShared: minShared, keys: keys, delay: auditDelay, pods: pods.GetIndexer(), nodes: nodes.Lister(),
		queue: workqueue.NewTypedDelayingQueue[string](), reported: map[string]string{},
	}
	if _, err = pods.AddEventHandler(onEvents(a.podChanged, a.podGone)); err != nil {
		return nil, fmt.Errorf("follow pods: %w", err)
	}
	if _, err = nodes.Informer().AddEventHandler(onEvents(a.reservedChanged, a.nodeGone)); err != nil {
		return nil, fmt.Errorf("follow nodes: %w", err)
	}
	go a.run()
	go func() { <-ctx.Done(); a.queue.ShutDown() }()
	return a, nil
}

// activate is called in every scheduling cycle. The first call has all nodes audited.
func (a *auditor) activate() {
	if a.active.Load() || a.active.Swap(true) {
		return
	}
	for node := range a.topologies.nodes.Range {
		a.nodeChanged(node.(string))
	}
}

func (a *auditor) podChanged(before, pod *corev1.Pod) {
	if pod.Spec.NodeName == "" {
		return
	}
	switch {
	case before == nil: // new to this scheduler
	case before.Spec.NodeName != "":
		if api.SameEntitlement(before, pod) && api.EffectiveRequest(before) == api.EffectiveRequest(pod) {
			return
		}
	case a.reservations.matches(before, pod):
		// Decided from the books, so it is consistent with them. Anything that was missing in them
		// is audited when it arrives.
		return
	}
	a.nodeChanged(pod.Spec.NodeName)
}

func (a *auditor) podGone(pod *corev1.Pod) {
	a.changed("pod/"+string(pod.UID), "")
	if pod.Spec.NodeName != "" {
		a.nodeChanged(pod.Spec.NodeName)
	}
}

// reservedChanged audits a new node and one with another reserved amount.
func (a *auditor) reservedChanged(before, node *corev1.Node) {
	if before == nil || api.Reserved(before) != api.Reserved(node) || before.UID != node.UID {
		a.nodeChanged(node.Name)
	}
}

func (a *auditor) nodeGone(node *corev1.Node) {
	a.changed("overflow/"+node.Name, "")
	a.changed("stale/"+node.Name, "")
}

func (a *auditor) nodeChanged(node string) {
	if a.active.Load() {
		a.queue.AddAfter(node, a.delay)
	}
}

func (a *auditor) run() {
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

// podsOn returns the pods of a node, in any order.
func (a *auditor) podsOn(node string) (pods []*corev1.Pod, err error) {
	objects, err := a.pods.ByIndex(nodeIndex, node)
	for _, object := range objects {
		if pod, ok := object.(*corev1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	return pods, err
}

// audit reports the problems of one node and its pods.
func (a *auditor) audit(name string) {
	t := a.topologies.get(name)
	node, err := a.nodes.Get(name)
	if err != nil || t == nil || t.Err != nil {
		return // audited when the node and a usable topology are there
	}
	if !t.IsOf(node.UID) {
		if a.changed("stale/"+name, string(node.UID+" "+t.Owner)) {
			a.log.Info("A NodeResourceTopology is about an earlier node of the same name; it counts as not reported", "node", name,
				"uid", node.UID, "reportedUID", t.Owner)
		}
		return
	}
	a.changed("stale/"+name, "")
	if !t.silent.IsZero() {
		a.setUnknown(node, t)
	}
	onNode, err := a.podsOn(name)
	if err != nil {
		a.log.Error(err, "Cannot list the pods of a node", "node", name)
		return
	}
	byID := map[ledger.PodID]*corev1.Pod{}
	var claims []ledger.Claim
	wrong := map[ledger.PodID]bool{}
	for _, pod := range onNode {
		claim, err := a.keys.Claim(pod, t.machine())
		if err != nil {
			a.tell(pod, eventInvalid, err.Error())
			wrong[claim.ID] = true
		}
		claims = append(claims, claim)
		byID[claim.ID] = pod
	}
	podName := func(id ledger.PodID) string { return klog.KObj(byID[id]).String() }
	books := ledger.New(t.Index, bookConfig(node, t, a.minShared), claims...)
	for _, c := range books.Conflicts() {
		a.tell(byID[c.ID], eventConflict, c.Describe(podName))
		wrong[c.ID] = true
	}
	for _, o := range books.Offline() {
		a.tell(byID[o.Pod], eventOffline, o.Describe(podName))
		wrong[o.Pod] = true
	}
	for id, pod := range byID {
		if !wrong[id] {
			a.changed("pod/"+string(pod.UID), "")
		}
	}
	var broken []string
	for _, o := range books.Overflow() {
		broken = append(broken, o.Describe(podName))
	}
	switch overflow := strings.Join(broken, "; "); {
	case !a.changed("overflow/"+name, overflow):
	case overflow == "":
		a.log.Info("A node's CPUs are no longer overcommitted", "node", name)
	default:
		a.log.Info("A node's CPUs are overcommitted; the scheduler adds no more pods to them", "node", name, "overflow", overflow)
	}
}

// SilentReason is the reason of the node's condition while the agent is silent.
const SilentReason = "AgentSilent"

// setUnknown sets the condition of a node whose agent is silent to Unknown. The agent sets it back.
func (a *auditor) setUnknown(node *corev1.Node, t *nodeTopology) {
	c := corev1.NodeCondition{Type: nodetopology.BindingCondition}
	for _, have := range node.Status.Conditions {
		if have.Type == c.Type {
			c = have
		}
	}
	if c.Status == corev1.ConditionUnknown && c.Reason == SilentReason {
		return
	}
	if c.Status != corev1.ConditionUnknown {
		c.LastTransitionTime = metav1.Now()
	}
	c.Status, c.Reason = corev1.ConditionUnknown, SilentReason
	c.Message = fmt.Sprintf("the Pinfold agent of this node has not renewed its lease %s since %s: what it has set stays in force, "+
		"and no pod that asks for CPUs is scheduled here", t.State.AgentLease, t.silent.UTC().Format(time.RFC3339))
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{c}}})
	if err == nil {
		_, err = a.handle.ClientSet().CoreV1().Nodes().PatchStatus(a.ctx, node.Name, patch)
	}
	if err != nil {
		a.log.Error(err, "Cannot set the condition of a node whose agent is silent", "node", node.Name)
		return
	}
	a.log.Info("The Pinfold agent of a node is silent", "node", node.Name, "lease", t.State.AgentLease, "since", t.silent)
}

// tell sends an event about a pod unless it repeats the last one.
func (a *auditor) tell(pod *corev1.Pod, reason, text string) {
	if a.changed("pod/"+string(pod.UID), text) {
		warn(a.handle, pod, reason, "Scheduling", text)
	}
}

// Reasons of the plugin's events.
const (
	// eventConflict is about a pod that loses a CPU to an earlier one.
	eventConflict = "CPUConflict"
	// eventOffline is about a pod with offline CPUs.
	eventOffline = "CPUOffline"
	// eventInvalid is about a pod whose allocation is missing or invalid.
	eventInvalid = "CPUAllocationInvalid"
	// eventIgnored is about a pod with an annotation that has no effect.
	eventIgnored = "CPUAnnotationIgnored"
)

// warn sends a warning event about a pod.
func warn(handle fwk.Handle, pod *corev1.Pod, reason, action, text string) {
	handle.EventRecorder().Eventf(pod, nil, corev1.EventTypeWarning, reason, action, "%s", api.Shorten(text, validation.NoteLengthLimit))
}
