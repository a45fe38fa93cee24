package agents

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"pinfold.dev/pinfold/test/must"
)

// TestConditionIsNotWrittenEverySecond: the scheduler may not write the status of nodes. It must
// not try each second: attempts for many nodes use up the client's rate, which its Bindings share.
func TestConditionIsNotWrittenEverySecond(t *testing.T) {
	synctest.Test(t, conditionIsNotWrittenEverySecond)
}

// TestMassSilence: while more than half of many agents are silent, no node is marked.
func TestMassSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var marked atomic.Int32
		client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			marked.Add(1)
			return true, &corev1.Node{}, nil
		})
		nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
		r := New("pinfold-system", time.Minute, time.Now)
		say := func(i int, silent time.Time) {
			name := fmt.Sprint("n", i)
			must.Do(t, nodes.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u"}}))
			report := Report{ObjectMeta: metav1.ObjectMeta{Name: name}}
			report.Owner = "u"
			r.store(report, silent)
		}
		for i := range 2 * massSilence {
			say(i, time.Time{})
		}
		ago := time.Now().Add(-time.Hour)
		for i := range massSilence + 1 {
			say(i, ago)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() {
			time.Sleep(30 * time.Second)
			if n := marked.Load(); n > 0 {
				t.Errorf("%d nodes are marked while most are silent", n)
			}
			say(0, time.Time{})
		}()
		r.MarkSilent(ctx, client, corelisters.NewNodeLister(nodes), func() bool { return true })
		if n := marked.Load(); n != massSilence {
			t.Errorf("%d nodes are marked, want %d", n, massSilence)
		}
	})
}

func conditionIsNotWrittenEverySecond(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u"}}
	client := fake.NewClientset(node)
	var tries atomic.Int32
	client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		tries.Add(1)
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "n1", nil)
	})
	nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	must.Do(t, nodes.Add(node))
	r := New("pinfold-system", time.Minute, time.Now)
	report := Report{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	report.Owner = "u"
	r.store(report, time.Now().Add(-time.Hour))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r.MarkSilent(ctx, client, corelisters.NewNodeLister(nodes), func() bool { return true })
	if n := tries.Load(); n != 4 { // at once, and after 5, 15 and 35 s
		t.Errorf("%d attempts in a minute, want 4", n)
	}
}
