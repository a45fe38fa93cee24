package survey

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"

	"pinfold.dev/pinfold/kube/nodetopology"
)

// Client reads a cluster.
type Client struct {
	clients        map[Kind]rest.Interface
	parameters     runtime.ParameterCodec
	leaseNamespace string
	clock          *serverClock
}

// NewClient returns a client for the cluster of config. leaseNamespace is the namespace in which
// agents renew their leases.
func NewClient(config *rest.Config, leaseNamespace string) (*Client, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, coordinationv1.AddToScheme, nodetopology.AddToScheme, metav1.AddMetaToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	clock := &serverClock{}
	config = rest.CopyConfig(config)
	config.QPS = -1 // a large cluster takes many pages; the server has its own limits
	config.Wrap(clock.wrap)
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON // NodeTopologies have JSON only
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	c := &Client{clients: map[Kind]rest.Interface{}, parameters: runtime.NewParameterCodec(scheme), leaseNamespace: leaseNamespace, clock: clock}
	for kind, version := range map[Kind]schema.GroupVersion{Nodes: corev1.SchemeGroupVersion, Pods: corev1.SchemeGroupVersion,
		DaemonSets: appsv1.SchemeGroupVersion, Deployments: appsv1.SchemeGroupVersion, Leases: coordinationv1.SchemeGroupVersion, Topologies: nodetopology.GroupVersion} {
		config.GroupVersion, config.APIPath = &version, "/apis"
		if version.Group == "" {
			config.APIPath = "/api"
		}
		if c.clients[kind], err = rest.RESTClientForConfigAndClient(config, httpClient); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// list calls each for every object of a kind that a selector of fields selects, in a namespace or
// in all ("").
func (c *Client) list(ctx context.Context, kind Kind, namespace, fields string, newList func() runtime.Object, each func(runtime.Object)) error {
	page := func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		list := newList()
		request := c.clients[kind].Get().NamespaceIfScoped(namespace, namespace != "").Resource(string(kind)).
			SpecificallyVersionedParams(&options, c.parameters, corev1.SchemeGroupVersion)
		if _, names := list.(*metav1.PartialObjectMetadataList); names {
			request.SetHeader("Accept", runtime.ContentTypeProtobuf+";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
		}
		return list, request.Do(ctx).Into(list)
	}
	pages := pager.New(page)
	pages.PageBufferSize = 1 // a page of topologies of large machines takes megabytes
	return pages.EachListItem(ctx, metav1.ListOptions{FieldSelector: fields}, func(obj runtime.Object) error {
		each(obj)
		return nil
	})
}

// NodeNames returns the names of all nodes.
func (c *Client) NodeNames(ctx context.Context) (names []string, err error) {
	err = c.list(ctx, Nodes, "", "", func() runtime.Object { return &metav1.PartialObjectMetadataList{} }, func(obj runtime.Object) {
		if node, ok := obj.(*metav1.PartialObjectMetadata); ok {
			names = append(names, node.Name)
		}
	})
	return names, err
}

// serverClock is the API server's clock, as its answers show it in whole seconds. The clock of the
// machine on which an operator works can be wrong.
type serverClock struct {
	latest atomic.Pointer[time.Time]
}

func (s *serverClock) wrap(next http.RoundTripper) http.RoundTripper { return clockReader{next, s} }

// now returns the time of the latest answer, or this machine's if answers have no time.
func (s *serverClock) now() time.Time {
	if latest := s.latest.Load(); latest != nil {
		return *latest
	}
	return time.Now()
}

type clockReader struct {
	http.RoundTripper
	clock *serverClock
}

// RoundTrip implements [http.RoundTripper].
func (r clockReader) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.RoundTripper.RoundTrip(request)
	if err == nil {
		if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
			r.clock.latest.Store(&date)
		}
	}
	return response, err
}
