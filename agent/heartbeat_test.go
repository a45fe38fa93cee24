package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/internal/logdedup"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/test/logtext"
)

// testVersion is the version of the agents of these tests.
const testVersion = "v1.2.3"

// renewTime returns the renew time in the agent's lease.
func (w *world) renewTime() (time.Time, error) {
	lease, err := w.client.CoordinationV1().Leases(nodetopology.LeaseNamespace).Get(context.Background(), nodeName, metav1.GetOptions{})
	if err != nil {
		return time.Time{}, err
	}
	if owners := lease.OwnerReferences; len(owners) != 1 || owners[0].Kind != "Node" || owners[0].UID != "uid-n1" {
		return time.Time{}, fmt.Errorf("the lease is owned by %v", owners)
	}
	if version := api.VersionOf(lease); version != testVersion {
		return time.Time{}, fmt.Errorf("the lease has version %q, want %q", version, testVersion)
	}
	return lease.Spec.RenewTime.Time, nil
}

// renewed waits until the lease is renewed.
func (w *world) renewed() {
	w.t.Helper()
	before, _ := w.renewTime()
	w.eventually(func() error {
		now, err := w.renewTime()
		if err == nil && !now.After(before) {
			err = fmt.Errorf("the lease has not been renewed since %v", before)
		}
		return err
	})
}

func TestLeaseIsRenewedWhileRoundsEnd(t *testing.T) {
	w, k, bound, beside := bothPods(t)
	w.leases = nodetopology.LeaseNamespace
	stop := w.start()
	w.enforced(k, bound, beside)
	w.renewed()
	w.eventually(func() error {
		object, err := w.topologies.Get(t.Context(), nodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		_, state, err := nodetopology.ToMachine(object)
		if err == nil && state.AgentLease != "pinfold-system/n1" {
			err = fmt.Errorf("the topology names the lease %q", state.AgentLease)
		}
		return err
	})

	// A round hangs while it reads the machine: the lease is not renewed any more.
	release := k.hang("sys/devices/system/cpu/online", "0-7")
	w.eventually(func() error { return w.log.Says("the last round ended") })
	w.eventually(func() error { // not at once: a round may have been late before it
		before, err := w.renewTime()
		time.Sleep(10 * w.options().LeaseEvery)
		now, again := w.renewTime()
		if !now.Equal(before) {
			err = fmt.Errorf("the lease was renewed at %v although no round has ended", now)
		}
		return errors.Join(err, again)
	})

	// When rounds end again, the lease is renewed, and a condition that the scheduler changed
	// meanwhile is restored.
	c := w.condition()
	c.Status, c.Reason = corev1.ConditionUnknown, "AgentSilent"
	if err := patchCondition(t.Context(), w.client, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}, c); err != nil {
		t.Fatal(err)
	}
	release()
	w.renewed()
	w.eventually(w.ready)
	stop()

	if _, err := Cleanup(t.Context(), w.options()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.renewTime(); !apierrors.IsNotFound(err) {
		t.Errorf("after the cleanup the lease still exists: %v", err)
	}
}

// TestLeaseInterval: all agents of a fleet together renew a bounded number of leases a second, and
// each lease says for how long a renewal is valid.
func TestLeaseInterval(t *testing.T) {
	const rights = "leases is forbidden"
	for _, c := range []struct {
		configured time.Duration
		others     int64
		err        error
		want       int32 // seconds
	}{
		{0, 0, nil, 40},
		{0, 1249, nil, 40},
		{0, 4999, nil, 160},
		{0, 1_000_000, nil, 480},
		{0, 4999, errors.New(rights), 40},
		{5 * time.Second, 4999, nil, 20},
		{300 * time.Millisecond, 0, nil, 2},
	} {
		client := fake.NewClientset()
		client.PrependReactor("list", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if o := action.(clienttesting.ListActionImpl).ListOptions; o.Limit != 1 || o.ResourceVersion != "" {
				t.Errorf("all leases are listed: %+v", o)
			}
			page := &coordinationv1.LeaseList{Items: make([]coordinationv1.Lease, 1)}
			page.RemainingItemCount = &c.others
			return true, page, c.err
		})
		var log logtext.Log
		h := newHeartbeat(client, c.configured, &log)
		for range 2 {
			h.lastRound.Store(h.Now().UnixNano())
			if renewed, err := h.once(t.Context()); !renewed || err != nil {
				t.Errorf("renewed %v: %v", renewed, err)
			}
		}
		lease, err := client.CoordinationV1().Leases(nodetopology.LeaseNamespace).Get(t.Context(), nodeName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := *lease.Spec.LeaseDurationSeconds; got != c.want {
			t.Errorf("interval %v, %d others: a renewal is valid for %d s, want %d", c.configured, c.others, got, c.want)
		}
		if said := log.Says(rights) == nil; said != (c.err != nil) {
			t.Errorf("the log says %q", log.String())
		}
	}
}

// TestLeaseAfterOutage: however long the API server was away, the lease is renewed soon after.
func TestLeaseAfterOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, away := fake.NewClientset(), atomic.Bool{}
		var renewals, failures atomic.Int32
		client.PrependReactor("*", "leases", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if away.Load() {
				failures.Add(1)
				return true, nil, errors.New("connection refused")
			}
			if a.GetVerb() != "list" {
				renewals.Add(1)
			}
			return false, nil, nil
		})
		h := newHeartbeat(client, 0, &logtext.Log{})
		ctx, cancel := context.WithCancel(t.Context())
		go h.loop(ctx)
		go func() {
			for ; ctx.Err() == nil; time.Sleep(time.Second) {
				h.lastRound.Store(h.Now().UnixNano())
			}
		}()
		for outage := time.Minute; outage < 10*time.Minute; outage += 7 * time.Second {
			away.Store(true)
			time.Sleep(outage)
			away.Store(false)
			if tries := failures.Swap(0); outage > 5*time.Minute && time.Duration(tries) > outage/(8*time.Second) {
				t.Errorf("%d attempts in %v", tries, outage)
			}
			before := renewals.Load()
			if time.Sleep(12 * time.Second); renewals.Load() == before {
				t.Errorf("after %v without API server, the lease was not renewed for 12 s", outage)
			}
		}
		cancel()
		time.Sleep(time.Minute)
	})
}

// newHeartbeat returns the heartbeat of an agent whose rounds end.
func newHeartbeat(client kubernetes.Interface, every time.Duration, log io.Writer) *heartbeat {
	h := &heartbeat{Options: Options{Config: control.Config{NodeName: nodeName}, Client: client, LeaseNamespace: nodetopology.LeaseNamespace,
		LeaseEvery: every, Log: slog.New(slog.NewTextHandler(log, nil))}.withDefaults(), node: &atomic.Pointer[types.UID]{}, lastRound: &atomic.Int64{}, resumed: func() {}}
	h.dedup = logdedup.New(h.Log, h.Now)
	h.node.Store(new(types.UID))
	h.lastRound.Store(h.Now().UnixNano())
	return h
}

// hang makes reads of a file wait until release is called.
func (k *tree) hang(name, text string) (release func()) {
	k.t.Helper()
	name = filepath.Join(k.root, name)
	pipe := name + ".pipe"
	for _, err := range []error{unix.Mkfifo(pipe, 0o600), os.Rename(pipe, name)} {
		if err != nil {
			k.t.Fatal(err)
		}
	}
	return func() {
		w, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			k.t.Fatal(err)
		}
		defer w.Close()
		ordinary := name + ".new"
		for _, err := range []error{os.WriteFile(ordinary, []byte(text), 0o600), os.Rename(ordinary, name)} {
			if err != nil {
				k.t.Error(err)
			}
		}
		if _, err := w.WriteString(text); err != nil {
			k.t.Error(err)
		}
	}
}
