package history

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// retryPause is the pause between two attempts to reach the API server.
const retryPause = 50 * time.Millisecond

// watchSeconds is the duration of a watch. Near its end the API server sends a bookmark
// (k8s.io/apiserver pkg/storage/cacher, 1.37), so that the position of a kind without changes
// advances. The older the position, the longer the gap if the kind must be listed again.
const watchSeconds int64 = 5

func resources() map[Kind]schema.GroupVersionResource {
	return map[Kind]schema.GroupVersionResource{
		Pod:      {Version: "v1", Resource: "pods"},
		Node:     {Version: "v1", Resource: "nodes"},
		Topology: nodetopology.GroupVersion.WithResource(nodetopology.Resource),
	}
}

// Recorder records the changes of a cluster until it is stopped.
type Recorder struct {
	client  dynamic.Interface
	streams map[Kind]*stream
	cancel  context.CancelFunc
	done    sync.WaitGroup

	mu     sync.Mutex
	events []Event
}

// stream is the watch of one kind.
type stream struct {
	recorder *Recorder
	kind     Kind
	client   dynamic.ResourceInterface
	// version is the position at which the watch continues. It is lost if the API server no longer
	// has the changes after it.
	version string
	lost    bool

	// known has the objects by namespace and name. mu protects it while the stream's goroutine
	// changes it and while others read it.
	mu    sync.Mutex
	known map[string]*unstructured.Unstructured
}

// Record starts a recorder and returns when it has listed all kinds. Existing objects are its first
// events.
func Record(ctx context.Context, client dynamic.Interface) (*Recorder, error) {
	running, cancel := context.WithCancel(ctx)
	r := &Recorder{client: client, streams: map[Kind]*stream{}, cancel: cancel}
	for kind, resource := range resources() {
		s := &stream{recorder: r, kind: kind, client: client.Resource(resource), known: map[string]*unstructured.Unstructured{}}
		if err := s.list(ctx); err != nil {
			cancel()
			return nil, err
		}
		r.streams[kind] = s
	}
	for _, s := range r.streams {
		r.done.Go(func() { s.run(running) })
	}
	return r, nil
}

// Events returns the events recorded so far, sorted by revision.
func (r *Recorder) Events() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return sorted(r.events)
}

// Sync waits until the recorder has everything that a list shows now.
func (r *Recorder) Sync(ctx context.Context) error {
	for kind, s := range r.streams {
		for {
			missing, err := s.behind(ctx)
			if err == nil && !missing {
				break
			}
			if !sleep.For(ctx, retryPause) {
				return fmt.Errorf("wait until all changes of kind %s are recorded: %w", kind, context.Cause(ctx))
			}
		}
	}
	return nil
}

// Stop ends the recorder.
func (r *Recorder) Stop() {
	r.cancel()
	r.done.Wait()
}

func (r *Recorder) add(event Event) {
	event.Seen = time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, event)
}

// run watches, and lists again if the watch cannot continue at its position.
func (s *stream) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := s.follow(ctx)
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			s.lost = true
		}
		if err != nil && !sleep.For(ctx, retryPause) {
			return
		}
	}
}

// follow lists if necessary, and watches until the watch ends.
func (s *stream) follow(ctx context.Context) error {
	if s.lost {
		if err := s.list(ctx); err != nil {
			return err
		}
	}
	timeout := watchSeconds
	w, err := s.client.Watch(ctx, metav1.ListOptions{ResourceVersion: s.version, AllowWatchBookmarks: true, TimeoutSeconds: &timeout})
	if err != nil {
		return fmt.Errorf("watch %s: %w", s.kind, err)
	}
	defer w.Stop()
	defer context.AfterFunc(ctx, w.Stop)()
	for event := range w.ResultChan() {
		if event.Type == watch.Error {
			return apierrors.FromObject(event.Object)
		}
		object, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("watch %s: got a %T", s.kind, event.Object)
		}
		if event.Type != watch.Bookmark {
			if err := s.record(Event{Type: Type(event.Type)}, object); err != nil {
				return err
			}
		}
		s.version = object.GetResourceVersion()
	}
	return nil
}

// list records the differences between the objects and the known ones, after a gap unless it is the
// first list.
func (s *stream) list(ctx context.Context) error {
	list, err := s.client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list %s: %w", s.kind, err)
	}
	revision, err := parseRevision(list.GetResourceVersion())
	if err != nil {
		return fmt.Errorf("list %s: %w", s.kind, err)
	}
	relisted := s.lost
	if relisted {
		from, err := parseRevision(s.version)
		if err != nil {
			return err
		}
		s.recorder.add(Event{Revision: revision, Type: Gap, Kind: s.kind, From: from})
	}
	present := map[string]bool{}
	for i := range list.Items {
		object := &list.Items[i]
		present[key(object)] = true
		before := s.known[key(object)]
		event := Event{Type: Added, Relisted: relisted}
		switch {
		case before == nil:
		case before.GetUID() != object.GetUID():
			if err := s.record(Event{Revision: revision, Type: Deleted, Relisted: true}, before); err != nil {
				return err
			}
		case before.GetResourceVersion() == object.GetResourceVersion():
			continue
		default:
			event.Type = Modified
		}
		if err := s.record(event, object); err != nil {
			return err
		}
	}
	for name, object := range s.known {
		if present[name] {
			continue
		}
		if err := s.record(Event{Revision: revision, Type: Deleted, Relisted: true}, object); err != nil {
			return err
		}
	}
	s.version, s.lost = list.GetResourceVersion(), false
	return nil
}

// record adds an event about an object. Its revision is the object's unless event has one.
func (s *stream) record(event Event, object *unstructured.Unstructured) (err error) {
	event.Kind = s.kind
	if event.Revision == 0 {
		if event.Revision, err = parseRevision(object.GetResourceVersion()); err != nil {
			return fmt.Errorf("%s %s: %w", s.kind, key(object), err)
		}
	}
	s.mu.Lock()
	if event.Type == Deleted {
		delete(s.known, key(object))
	} else {
		s.known[key(object)] = object
	}
	s.mu.Unlock()
	object = object.DeepCopy()
	object.SetManagedFields(nil)
	if event.Object, err = json.Marshal(object); err != nil {
		return fmt.Errorf("encode %s %s: %w", s.kind, key(object), err)
	}
	s.recorder.add(event)
	return nil
}

// behind reports whether a list shows changes that were not recorded yet.
func (s *stream) behind(ctx context.Context) (bool, error) {
	list, err := s.client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, fmt.Errorf("list %s: %w", s.kind, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range list.Items {
		known := s.known[key(&list.Items[i])]
		if known == nil || known.GetResourceVersion() != list.Items[i].GetResourceVersion() {
			return true, nil
		}
	}
	return len(list.Items) != len(s.known), nil
}

func parseRevision(version string) (uint64, error) {
	revision, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("resourceVersion %q: %w", version, err)
	}
	return revision, nil
}

func key(object *unstructured.Unstructured) string {
	return object.GetNamespace() + "/" + object.GetName()
}
