// Package apiclient connects to the API server for objects of kind NodeTopology. It is apart from
// nodetopology, because client-go's generic clients link a server's parts of the API machinery.
package apiclient

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"pinfold.dev/pinfold/kube/nodetopology"
)

// New returns a client for the cluster of config.
func New(config *rest.Config) (nodetopology.Client, error) {
	scheme := runtime.NewScheme()
	if err := nodetopology.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &nodetopology.GroupVersion, "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	// Custom resources do not support protobuf.
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	return gentype.NewClientWithList(nodetopology.Resource, client, runtime.NewParameterCodec(scheme), "",
		func() *nodetopology.NodeTopology { return &nodetopology.NodeTopology{} }, func() *nodetopology.List { return &nodetopology.List{} }), nil
}

// NewInformer returns an informer of all objects.
func NewInformer(client nodetopology.Client) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, options)
		},
		WatchFuncWithContext: client.Watch,
	}, &nodetopology.NodeTopology{}, 0, nil)
}
