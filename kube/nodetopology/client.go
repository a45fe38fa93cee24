package nodetopology

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// Client reads and writes the objects of a cluster.
type Client interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (*NodeTopology, error)
	List(ctx context.Context, options metav1.ListOptions) (*List, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
	Create(ctx context.Context, object *NodeTopology, options metav1.CreateOptions) (*NodeTopology, error)
	Update(ctx context.Context, object *NodeTopology, options metav1.UpdateOptions) (*NodeTopology, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}

// ErrNoDefinition says that the cluster does not know the kind.
var ErrNoDefinition = errors.New("the cluster does not know NodeTopology (pinfold.dev/v1alpha1): " +
	"apply deploy/chart/crds/nodetopology.yaml of Pinfold")

// ErrOldDefinition says that the API server has not kept all fields of an object.
var ErrOldDefinition = errors.New("the cluster's definition of NodeTopology is older than this agent and drops fields: " +
	"apply deploy/chart/crds/nodetopology.yaml of its version")
