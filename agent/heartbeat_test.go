package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
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
	if err := patchCondition(t.Context(), w.client, nodeName, c); err != nil {
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
