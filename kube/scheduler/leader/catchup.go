package leader

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"pinfold.dev/pinfold/internal/sleep"
)

// boundPods selects the pods that hold CPUs.
const boundPods = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"

// CatchUp returns nil if this scheduler, which is the leader, may decide: no Binding of the
// previous leader is in flight, and the snapshot of this cycle contains all pods that were bound
// then. It must be called in a scheduling cycle. Once it has returned nil, it always does.
func (l *Leadership) CatchUp(ctx context.Context, handle fwk.Handle) error {
	if !l.Elected() || l.caughtUp.Load() {
		return nil
	}
	if wait := l.pause(); wait > 0 {
		klog.FromContext(ctx).Info("This scheduler has taken the lease from another one and waits for Bindings of that one", "wait", wait)
		if !sleep.For(ctx, wait) {
			return ctx.Err()
		}
		// The snapshot of this cycle may be older than those Bindings.
		return errors.New("this scheduler has just become the leader and waited for Bindings of the previous one")
	}
	pods, err := listBound(ctx, handle)
	if err != nil {
		return fmt.Errorf("list bound pods before the first decision: %w", err)
	}
	missing, err := notSeen(handle, pods)
	if err != nil {
		return fmt.Errorf("compare bound pods before the first decision: %w", err)
	}
	if missing > 0 {
		return fmt.Errorf("this scheduler has just become the leader, and %d bound pods have not reached it yet", missing)
	}
	l.caughtUp.Store(true)
	return nil
}

// listBound lists the pods that are bound now. Without a resource version the API server answers
// from etcd, or from a cache that is up to date.
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

// notSeen counts the pods that are missing on their nodes in this cycle's snapshot. Pods on nodes
// that the scheduler does not know are not counted, because nothing can be scheduled there.
func notSeen(handle fwk.Handle, bound []metav1.PartialObjectMetadata) (missing int, err error) {
	nodes, err := handle.SnapshotSharedLister().NodeInfos().List()
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
	lister := handle.SharedInformerFactory().Core().V1().Pods().Lister()
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
