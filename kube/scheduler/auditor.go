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
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// auditDelay lets the changes of a node come together before it is audited.
const auditDelay = 500 * time.Millisecond

// nodeIndex finds the pods of a node in the scheduler's informer.
const nodeIndex = "pinfold.dev/node"

// auditor tells users what has come into the books of nodes beside the scheduler: by
// an edit by hand, a forced deletion, another scheduler. It looks at a node after
// every change of its pods' entitlements, its topology or its reserved amount, away
// from the scheduling cycle, and says each thing once.
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
	busy         atomic.Int32

	// active is true once this replica schedules: all replicas follow the cluster,
	// and one should speak.
	active atomic.Bool

	mu        sync.Mutex
	told      map[types.UID]string // the last thing said to each pod
	overflows map[string]string    // the last thing logged of each node
	stale     map[string]reuse     // the last such thing logged of each node
}

// reuse is that the topology of a node is about an earlier one of the same name.
type reuse struct{ node, reported types.UID }

func newAuditor(ctx context.Context, handle fwk.Handle, topologies *topologies, reservations *reservations, minShared int, keys *api.Keys) (*auditor, error) {
	pods := handle.SharedInformerFactory().Core().V1().Pods().Informer()
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
		minShared: minShared, keys: keys, delay: auditDelay,
		pods: pods.GetIndexer(), nodes: handle.SharedInformerFactory().Core().V1().Nodes().Lister(),
		queue: workqueue.NewTypedDelayingQueue[string](),
		told:  map[types.UID]string{}, overflows: map[string]string{}, stale: map[string]reuse{},
	}
	_, err = pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { a.podChanged(nil, obj) },
		UpdateFunc: func(old, obj any) { a.podChanged(old, obj) },
		DeleteFunc: onDeleted(a.podGone),
	})
	if err != nil {
		return nil, fmt.Errorf("follow pods: %w", err)
	}
	_, err = handle.SharedInformerFactory().Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { a.amountChanged(nil, obj) },
		UpdateFunc: func(old, obj any) { a.amountChanged(old, obj) },
		DeleteFunc: onDeleted(func(node *corev1.Node) { a.forgetNode(node.Name) }),
	})
	if err != nil {
		return nil, fmt.Errorf("follow nodes: %w", err)
	}
	go a.run()
	go func() { <-ctx.Done(); a.queue.ShutDown() }()
	return a, nil
}

// activate is called in every scheduling cycle.
func (a *auditor) activate() {
	if a.active.Load() || a.active.Swap(true) {
		return
	}
	for _, node := range a.topologies.names() {
		a.nodeChanged(node)
	}
}

func (a *auditor) podChanged(old, obj any) {
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" {
		return
	}
	before, ok := old.(*corev1.Pod)
	switch {
	case !ok: // it is new
	case before.Spec.NodeName != "":
		if api.SameEntitlement(before, pod) && api.EffectiveRequest(before) == api.EffectiveRequest(pod) {
			return
		}
	case a.reservations.made(before, pod):
		// What was decided by the books breaks nothing in them; and what they did not
		// know of then is audited when it comes.
		return
	}
	a.nodeChanged(pod.Spec.NodeName)
}

func (a *auditor) podGone(pod *corev1.Pod) {
	a.mu.Lock()
	delete(a.told, pod.UID)
	a.mu.Unlock()
	if pod.Spec.NodeName != "" {
		a.nodeChanged(pod.Spec.NodeName)
	}
}

// amountChanged: a node has come, or keeps another amount for the system.
func (a *auditor) amountChanged(old, obj any) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return
	}
	if before, ok := old.(*corev1.Node); ok && reservedCPU(before) == reservedCPU(node) && before.UID == node.UID {
		return
	}
	a.nodeChanged(node.Name)
}

func (a *auditor) nodeChanged(node string) {
	if a.active.Load() {
		a.queue.AddAfter(node, a.delay)
	}
}

func (a *auditor) forgetNode(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.overflows, name)
	delete(a.stale, name)
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

// audit says what is wrong with the pods of one node.
func (a *auditor) audit(name string) {
	t := a.topologies.get(name)
	node, err := a.nodes.Get(name)
	if err != nil || t == nil || t.err != nil {
		return // nothing to judge by, until one of the two is there again
	}
	if !t.isOf(node) {
		a.logStale(name, reuse{node.UID, t.owner})
		return
	}
	a.logStale(name, reuse{})
	if !t.silent.IsZero() {
		a.doubt(node, t)
	}
	onNode, err := a.pods.ByIndex(nodeIndex, name)
	if err != nil {
		a.log.Error(err, "Cannot list the pods of a node", "node", name)
		return
	}
	byID := map[ledger.PodID]*corev1.Pod{}
	var claims []ledger.Claim
	wrong := map[ledger.PodID]bool{}
	for _, obj := range onNode {
		pod, ok := obj.(*corev1.Pod)
		if !ok {
			continue
		}
		claim, err := a.keys.Claim(pod, t.machine())
		if err != nil {
			a.tell(pod, EventInvalid, err.Error())
			wrong[claim.ID] = true
		}
		claims = append(claims, claim)
		byID[claim.ID] = pod
	}
	podName := func(id ledger.PodID) string { return klog.KObj(byID[id]).String() }
	books := ledger.New(t.index, bookConfig(node, t, a.minShared), claims...)
	for _, c := range books.Conflicts() {
		a.tell(byID[c.ID], EventConflict, c.Describe(podName))
		wrong[c.ID] = true
	}
	for _, o := range books.Offline() {
		a.tell(byID[o.Pod], EventOffline, o.Describe(podName))
		wrong[o.Pod] = true
	}
	a.settled(byID, wrong)
	var broken []string
	for _, o := range books.Overflow() {
		broken = append(broken, o.Describe(podName))
	}
	a.logOverflow(name, strings.Join(broken, "; "))
}

// SilentReason is the reason of the node's condition while its agent is silent.
const SilentReason = "AgentSilent"

// doubt turns the condition of a node to Unknown whose agent is silent. To turn it back is
// the agent's business.
func (a *auditor) doubt(node *corev1.Node, t *nodeTopology) {
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
		"and no pod that asks for CPUs is scheduled here", t.state.AgentLease, t.silent.UTC().Format(time.RFC3339))
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{c}}})
	if err == nil {
		_, err = a.handle.ClientSet().CoreV1().Nodes().PatchStatus(a.ctx, node.Name, patch)
	}
	if err != nil {
		a.log.Error(err, "Cannot set the condition of a node whose agent is silent", "node", node.Name)
		return
	}
	a.log.Info("The Pinfold agent of a node is silent", "node", node.Name, "lease", t.state.AgentLease, "since", t.silent)
}

// tell sends an event, unless it is what the pod was told last.
func (a *auditor) tell(pod *corev1.Pod, reason, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.told[pod.UID] == text {
		return
	}
	a.told[pod.UID] = text
	warn(a.handle, pod, reason, "Scheduling", text)
}

// settled forgets what was told to pods with which nothing is wrong any more.
func (a *auditor) settled(pods map[ledger.PodID]*corev1.Pod, wrong map[ledger.PodID]bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id := range pods {
		if !wrong[id] {
			delete(a.told, types.UID(id))
		}
	}
}

// logStale takes the zero reuse for a topology that is about the node itself.
func (a *auditor) logStale(node string, now reuse) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case now == reuse{}:
		delete(a.stale, node)
	case a.stale[node] != now:
		a.stale[node] = now
		a.log.Info("A NodeResourceTopology is about an earlier node of the same name; it counts as not reported", "node", node,
			"uid", now.node, "reportedUID", now.reported)
	}
}

func (a *auditor) logOverflow(node, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.overflows[node] == text:
	case text == "":
		delete(a.overflows, node)
		a.log.Info("The CPUs of a node suffice again", "node", node)
	default:
		a.overflows[node] = text
		a.log.Info("More is promised of a node's CPUs than there is; the scheduler adds nothing to that", "node", node, "overflow", text)
	}
}
