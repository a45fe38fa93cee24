package scheduler

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"pinfold.dev/pinfold/internal/sleep"
)

// boundPods selects the pods that take CPUs, of those that the scheduler watches.
const boundPods = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"

// catchUp returns nil when this scheduler, which leads, may decide: when no Binding of the
// leader before it is on its way any more, and the scheduler's list of pods on nodes, as
// this cycle sees it, has all pods that were bound then. It can only be asked in a
// scheduling cycle, and holds once it has returned nil.
func (p *Plugin) catchUp(ctx context.Context) error {
	l := p.leadership
	if !l.elected() || l.fresh.Load() {
		return nil
	}
	l.mu.Lock()
	wait := time.Until(l.quiet)
	l.mu.Unlock()
	if wait > 0 {
		klog.FromContext(ctx).Info("This scheduler has taken the lease from another one; it waits for the Bindings of that", "wait", wait)
		if !sleep.For(ctx, wait) {
			return ctx.Err()
		}
		// This cycle began before, so what it sees may be too old.
		return fmt.Errorf("this scheduler has just begun to lead and waited for Bindings of the one before")
	}
	pods, err := listBound(ctx, p.handle)
	if err != nil {
		return fmt.Errorf("list the bound pods before the first decision: %w", err)
	}
	missing, err := p.notSeen(pods)
	if err != nil {
		return fmt.Errorf("compare the bound pods before the first decision: %w", err)
	}
	if missing > 0 {
		return fmt.Errorf("this scheduler has just begun to lead, and %d bound pods have not reached it yet", missing)
	}
	l.fresh.Store(true)
	return nil
}

// listBound lists the pods that are bound now: without a resource version the API server
// answers from etcd, or from a cache that is as fresh.
func listBound(ctx context.Context, handle fwk.Handle) ([]metav1.PartialObjectMetadata, error) {
	client, err := metadata.NewForConfig(handle.KubeConfig())
	if err != nil {
		return nil, err
	}
	list, err := client.Resource(corev1.SchemeGroupVersion.WithResource("pods")).List(ctx, metav1.ListOptions{FieldSelector: boundPods})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// notSeen counts the pods that are not on their nodes in this cycle's picture of the
// cluster. A pod on a node that the scheduler does not know takes nothing from any other.
func (p *Plugin) notSeen(bound []metav1.PartialObjectMetadata) (missing int, err error) {
	nodes, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return 0, err
	}
	seen, known := map[types.UID]bool{}, map[string]bool{}
	for _, node := range nodes {
		known[node.Node().Name] = true
		for _, info := range node.GetPods() {
			seen[info.GetPod().UID] = true
		}
	}
	lister := p.handle.SharedInformerFactory().Core().V1().Pods().Lister()
	for i := range bound {
		if seen[bound[i].UID] {
			continue
		}
		pod, err := lister.Pods(bound[i].Namespace).Get(bound[i].Name)
		if err != nil || pod.UID != bound[i].UID || pod.Spec.NodeName == "" || known[pod.Spec.NodeName] {
			missing++
		}
	}
	return missing, nil
}
