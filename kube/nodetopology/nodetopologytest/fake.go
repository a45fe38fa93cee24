// Package nodetopologytest has a client of NodeTopology objects that keeps them in memory.
package nodetopologytest

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/testing"

	"pinfold.dev/pinfold/kube/nodetopology"
)

// Fake is a [nodetopology.Client] whose answers tests can change with reactors.
type Fake struct {
	nodetopology.Client
	*testing.Fake
	Tracker testing.ObjectTracker
}

// NewFake returns a client without objects.
func NewFake() *Fake {
	scheme := runtime.NewScheme()
	if err := nodetopology.AddToScheme(scheme); err != nil {
		panic(err)
	}
	f := &Fake{Fake: &testing.Fake{}, Tracker: testing.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder())}
	f.AddReactor("*", "*", testing.ObjectReaction(f.Tracker))
	f.AddWatchReactor("*", func(action testing.Action) (bool, watch.Interface, error) {
		w, err := f.Tracker.Watch(action.GetResource(), action.GetNamespace())
		return err == nil, w, err
	})
	f.Client = gentype.NewFakeClientWithList(f.Fake, "", nodetopology.GroupVersion.WithResource(nodetopology.Resource),
		nodetopology.GroupVersion.WithKind(nodetopology.Kind),
		func() *nodetopology.NodeTopology { return &nodetopology.NodeTopology{} }, func() *nodetopology.List { return &nodetopology.List{} },
		func(to, from *nodetopology.List) { to.ListMeta = from.ListMeta },
		func(list *nodetopology.List) []*nodetopology.NodeTopology { return gentype.ToPointerSlice(list.Items) },
		func(list *nodetopology.List, items []*nodetopology.NodeTopology) {
			list.Items = gentype.FromPointerSlice(items)
		})
	return f
}
