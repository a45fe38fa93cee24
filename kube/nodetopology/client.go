package nodetopology

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
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

// NewClient returns a client for the cluster of config.
func NewClient(config *rest.Config) (Client, error) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &GroupVersion, "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	// Custom resources do not support protobuf.
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	return gentype.NewClientWithList(Resource, client, runtime.NewParameterCodec(scheme), "",
		func() *NodeTopology { return &NodeTopology{} }, func() *List { return &List{} }), nil
}

// NewInformer returns an informer of all objects.
func NewInformer(client Client) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, options)
		},
		WatchFuncWithContext: client.Watch,
	}, &NodeTopology{}, 0, nil)
}
