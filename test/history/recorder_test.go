package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/wait"
)

// named returns a pod at a revision.
func named(name string, revision int) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{
		"name": name, "uid": "uid-of-" + name, "resourceVersion": fmt.Sprint(revision)}}}
}

// TestRecorderAfterCompaction: if a watch cannot continue because the next changes were compacted,
// the recorder records a gap, lists again and records the differences.
func TestRecorderAfterCompaction(t *testing.T) {
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), listKinds())
	var mu sync.Mutex
	lists := [][]*unstructured.Unstructured{{named("a", 3)}, {named("a", 7), named("c", 9)}}
	revisions := []string{"4", "10"}
	client.PrependReactor("list", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "List"}}
		list.SetResourceVersion("4")
		if action.GetResource().Resource == "pods" {
			for _, item := range lists[0] {
				list.Items = append(list.Items, *item)
			}
			list.SetResourceVersion(revisions[0])
			lists, revisions = lists[1:], revisions[1:]
		}
		return true, list, nil
	})
	watches := 0
	client.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		mu.Lock()
		defer mu.Unlock()
		w := watch.NewRaceFreeFake()
		if action.GetResource().Resource == "pods" {
			if watches++; watches == 1 {
				w.Add(named("b", 5))
				w.Action(watch.Bookmark, named("", 6))
				w.Error(&metav1.Status{Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonExpired, Message: "compacted"})
			}
		}
		return true, w, nil
	})
	r := must.Get(Record(t.Context(), client))(t)
	defer r.Stop()
	want := "3 ADDED a, 5 ADDED b, 7 MODIFIED a relisted, 9 ADDED c relisted, 10 GAP from 6, 10 DELETED b relisted"
	wait.Until(t, "all changes are recorded", func() error {
		if diff := cmp.Diff(want, summary(t, r.Events())); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
}

func listKinds() map[schema.GroupVersionResource]string {
	kinds := map[schema.GroupVersionResource]string{}
	for kind, resource := range resources() {
		kinds[resource] = string(kind) + "List"
	}
	return kinds
}

func summary(t *testing.T, events []Event) string {
	t.Helper()
	var parts []string
	for _, event := range events {
		text := fmt.Sprint(event.Revision, " ", event.Type)
		if event.Type == Gap {
			parts = append(parts, fmt.Sprint(text, " from ", event.From))
			continue
		}
		var object metav1.PartialObjectMetadata
		must.Do(t, json.Unmarshal(event.Object, &object))
		text += " " + object.Name
		if event.Relisted {
			text += " relisted"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}
