package survey

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	"pinfold.dev/pinfold/kube/nodetopology"
)

// ErrNotInstalled is wrapped by the error about a cluster without the kind NodeTopology.
var ErrNotInstalled = errors.New("the cluster has no kind NodeTopology (pinfold.dev/v1alpha1), so Pinfold is not installed in it")

// ErrNoNode is wrapped by the error about a node that does not exist.
var ErrNoNode = errors.New("no such node")

// Read reads the objects of the cluster, or those of one node. A kind that this user may not list
// is omitted, with the reason in Unread. Any other failure is an error.
func (c *Client) Read(ctx context.Context, node string) (*Objects, error) {
	o := &Objects{Node: node, LeaseNamespace: c.leaseNamespace, Unread: map[Kind]error{}}
	named, onNode := "", ""
	if node != "" {
		named, onNode = "metadata.name="+fields.EscapeValue(node), ",spec.nodeName="+fields.EscapeValue(node)
	}
	decoder := nodetopology.NewDecoder()
	r := &reading{Client: c, Objects: o}
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return r.read(groupCtx, Nodes, "", named, func() runtime.Object { return &corev1.NodeList{} }, func(obj runtime.Object) {
			o.Nodes = append(o.Nodes, keepNode(obj.(*corev1.Node)))
		})
	})
	group.Go(func() error {
		return r.read(groupCtx, Topologies, "", named, func() runtime.Object { return &nodetopology.List{} }, func(obj runtime.Object) {
			topology := obj.(*nodetopology.NodeTopology)
			o.Topologies = append(o.Topologies, Topology{topology.Name, topology.CreationTimestamp.Time, decoder.Decode(topology)})
		})
	})
	group.Go(func() error {
		const alive = "status.phase!=Succeeded,status.phase!=Failed"
		return r.read(groupCtx, Pods, "", alive+onNode, func() runtime.Object { return &corev1.PodList{} }, func(obj runtime.Object) {
			if pod := keep(obj.(*corev1.Pod)); pod != nil {
				o.Pods = append(o.Pods, pod)
			}
		})
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if node != "" && len(o.Nodes) == 0 && o.Unread[Nodes] == nil {
		return nil, fmt.Errorf("node %q: %w", node, ErrNoNode)
	}
	for _, namespace := range o.leaseNamespaces() {
		err := r.read(ctx, Leases, namespace, named, func() runtime.Object { return &coordinationv1.LeaseList{} }, func(obj runtime.Object) {
			lease := obj.(*coordinationv1.Lease)
			lease.ManagedFields, lease.OwnerReferences = nil, nil
			o.Leases = append(o.Leases, lease)
		})
		if err != nil {
			return nil, err
		}
	}
	for _, namespace := range o.trustedNamespaces() {
		err := r.read(ctx, DaemonSets, namespace, "", func() runtime.Object { return &appsv1.DaemonSetList{} }, func(obj runtime.Object) {
			o.DaemonSets = append(o.DaemonSets, obj.(*appsv1.DaemonSet))
		})
		if err == nil && node == "" {
			err = r.read(ctx, Deployments, namespace, "", func() runtime.Object { return &appsv1.DeploymentList{} }, func(obj runtime.Object) {
				o.Deployments = append(o.Deployments, obj.(*appsv1.Deployment))
			})
		}
		if err != nil {
			return nil, err
		}
	}
	o.Time = c.clock.now()
	return o, nil
}

// reading is a Read in progress.
type reading struct {
	*Client
	*Objects
	mu sync.Mutex // protects Unread
}

// read is list for the objects of a report.
func (r *reading) read(ctx context.Context, kind Kind, namespace, fields string, newList func() runtime.Object, each func(runtime.Object)) error {
	err := r.list(ctx, kind, namespace, fields, newList, each)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err):
		if namespace != "" {
			err = fmt.Errorf("in namespace %s: %w", namespace, err)
		}
		r.Unread[kind] = errors.Join(r.Unread[kind], err)
		return nil
	case kind == Topologies && apierrors.IsNotFound(err):
		return ErrNotInstalled
	}
	return fmt.Errorf("list %s: %w", kind, err)
}

// schedulerNamespace is the namespace of the lease of a cluster's default scheduler.
const schedulerNamespace = metav1.NamespaceSystem

// leaseNamespaces returns the namespaces whose leases are read.
func (o *Objects) leaseNamespaces() []string {
	if o.Node != "" { // schedulers are not part of what is read about one node
		return []string{o.LeaseNamespace}
	}
	return o.trustedNamespaces()
}

// trustedNamespaces returns the namespaces of leases and of Pinfold's own pods, in which no tenant may
// write. What pods and the objects of nodes name does not count: everybody who may write one of them
// could make a lease of their own that of an agent or a scheduler.
func (o *Objects) trustedNamespaces() []string {
	if o.LeaseNamespace == schedulerNamespace {
		return []string{schedulerNamespace}
	}
	return []string{schedulerNamespace, o.LeaseNamespace}
}

// keepNode returns a copy of what the report needs of a node.
func keepNode(node *corev1.Node) *corev1.Node {
	kept := &corev1.Node{}
	kept.Name, kept.UID, kept.CreationTimestamp = node.Name, node.UID, node.CreationTimestamp
	kept.Status.Conditions, kept.Status.Capacity, kept.Status.Allocatable = node.Status.Conditions, node.Status.Capacity, node.Status.Allocatable
	return kept
}
