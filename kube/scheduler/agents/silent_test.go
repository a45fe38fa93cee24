package agents

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
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

// TestFleetIsSilent: most agents do not reach the API server any more. No condition of their nodes is
// set. When most of them report again, those of the others are, ten in a second.
func TestFleetIsSilent(t *testing.T) { synctest.Test(t, fleetIsSilent) }

func fleetIsSilent(t *testing.T) {
	const all, remain = 100, 25
	nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	client := fake.NewClientset()
	r := New("pinfold-system", 40*time.Second, time.Now)
	r.beats.regain()
	r.beats.changed = func(node string) { r.judge(node) }
	name := func(i int) string { return fmt.Sprint("n", i) }
	for i := range all {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name(i)}}
		must.Do(t, nodes.Add(node))
		must.Do(t, client.Tracker().Add(node))
		report := &Report{ObjectMeta: node.ObjectMeta}
		report.State.AgentLease = "pinfold-system/" + node.Name
		r.Set(report)
	}
	renew := func(from int) {
		now, seconds := metav1.NowMicro(), int32(160)
		for i := from; i < all; i++ {
			r.Renewed(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name(i)},
				Spec: coordinationv1.LeaseSpec{RenewTime: &now, LeaseDurationSeconds: &seconds}})
		}
	}
	var marks, told atomic.Int32
	client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		marks.Add(1)
		return false, nil, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go r.MarkSilent(ctx, client, corelisters.NewNodeLister(nodes), func() bool { return true }, func(string) { told.Add(1) })
	// after lets time pass, and compares how many agents are silent, and what was done about it.
	after := func(d time.Duration, silent, wantMarks, wantTold int32) {
		t.Helper()
		for ; d > 0; d -= time.Second {
			time.Sleep(time.Second)
			r.Tick()
			synctest.Wait()
		}
		got := int32(0)
		for i := range all {
			if !r.Named(name(i)).Silent.IsZero() {
				got++
			}
		}
		if got != silent || marks.Load() != wantMarks || told.Load() != wantTold {
			t.Errorf("%d agents are silent, %d conditions set, and told %d times; want %d, %d, %d", got, marks.Load(), told.Load(), silent, wantMarks, wantTold)
		}
	}
	renew(0)
	after(160*time.Second, 0, 0, 0)
	after(10*time.Second, all, 0, 0) // the first of them, as far as is known
	after(time.Minute, all, 0, 1)
	after(5*time.Minute, all, 0, 1)
	after(5*time.Minute, all, 0, 2)
	renew(remain)
	after(2*time.Second, remain, 2*maxMarks, 2)
	after(time.Minute, remain, remain, 2)
	renew(0)
	after(time.Second, 0, remain, 2)
}

// TestConditionIsNotWrittenEverySecond: the scheduler may not write the status of nodes. It must
// not try each second: attempts for many nodes use up the client's rate, which its Bindings share.
func TestConditionIsNotWrittenEverySecond(t *testing.T) {
	synctest.Test(t, conditionIsNotWrittenEverySecond)
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
	since := time.Now().Add(-time.Hour)
	r.store(report, since)
	r.beats.beats["n1"] = &beat{at: since, grace: time.Minute, silent: true}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r.MarkSilent(ctx, client, corelisters.NewNodeLister(nodes), func() bool { return true }, func(string) {})
	if n := tries.Load(); n != 4 { // at once, and after 5, 15 and 35 s
		t.Errorf("%d attempts in a minute, want 4", n)
	}
}
