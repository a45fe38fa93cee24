package scheduler

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"pinfold.dev/pinfold/core/ledger"
)

// Reasons of events on pods that do not have the CPUs that their annotation names.
const (
	// EventConflict is on the pod that loses a CPU to an earlier one, or names CPUs
	// that cannot be its own.
	EventConflict = "CPUConflict"
	// EventInvalid is on a pod whose annotation cannot be believed, or is missing.
	EventInvalid = "CPUAllocationInvalid"
)

// auditor tells users what is wrong with the books of nodes: what came in beside the
// scheduler, by an edit by hand or by another scheduler. It says each thing once.
type auditor struct {
	handle fwk.Handle

	mu sync.Mutex
	// told is the last thing said to each pod.
	told map[types.UID]string
	// overflows is the last thing logged of each node.
	overflows map[string]string
}

func newAuditor(handle fwk.Handle) *auditor {
	return &auditor{
		handle:    handle,
		told:      map[types.UID]string{},
		overflows: map[string]string{},
	}
}

// look goes through a node's new state.
func (a *auditor) look(node fwk.NodeInfo, s *nodeState) {
	conflicts, overflow := s.books.Conflicts(), s.books.Overflow()
	if len(conflicts) == 0 && len(s.broken) == 0 && len(overflow) == 0 {
		a.logOverflow(node.Node().Name, "")
		return
	}
	pods := make(map[ledger.PodID]*corev1.Pod, len(node.GetPods()))
	for _, info := range node.GetPods() {
		pods[ledger.PodID(info.GetPod().UID)] = info.GetPod()
	}
	name := func(id ledger.PodID) string {
		if pod := pods[id]; pod != nil {
			return klog.KObj(pod).String()
		}
		return string(id)
	}
	for _, c := range conflicts {
		a.tell(pods[c.ID], EventConflict, c.Describe(name))
	}
	for uid, err := range s.broken {
		a.tell(pods[ledger.PodID(uid)], EventInvalid, err.Error())
	}
	text := ""
	for _, o := range overflow {
		text += o.Describe(name) + "; "
	}
	a.logOverflow(node.Node().Name, text)
}

func (a *auditor) tell(pod *corev1.Pod, reason, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.told[pod.UID] == text {
		return
	}
	a.told[pod.UID] = text
	a.handle.EventRecorder().Eventf(pod, nil, corev1.EventTypeWarning, reason, "Scheduling", "%s", text)
}

func (a *auditor) logOverflow(node, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.overflows[node] == text {
		return
	}
	if text == "" {
		delete(a.overflows, node)
		klog.InfoS("The CPUs of a node suffice again", "node", node)
		return
	}
	a.overflows[node] = text
	klog.InfoS("The CPUs of a node are promised more than once; the scheduler adds nothing to that", "node", node, "overflow", text)
}

// forgetPod and forgetNode drop what was said about what is gone.
func (a *auditor) forgetPod(uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.told, uid)
}

func (a *auditor) forgetNode(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.overflows, name)
}
