package command

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/test/must"
)

// TestVersionInLease: the lease has the versions of the scheduler that holds it, and those of no
// other one.
func TestVersionInLease(t *testing.T) {
	client := fake.NewClientset()
	lock := func(holder string) resourcelock.Interface {
		made := must.Get(resourcelock.New(resourcelock.LeasesResourceLock, "kube-system", "kube-scheduler", client.CoreV1(), client.CoordinationV1(),
			resourcelock.ResourceLockConfig{Identity: holder}))(t)
		return made
	}
	version := func() string {
		lease := must.Get(client.CoordinationV1().Leases("kube-system").Get(t.Context(), "kube-scheduler", metav1.GetOptions{}))(t)
		return strings.TrimSpace(api.VersionOf(lease) + " " + api.KubernetesVersionOf(lease))
	}
	config := &leaderelection.LeaderElectionConfig{Lock: lock("me"), RenewDeadline: time.Second}
	recordVersion(config.Lock, "v1.2.3", "1.36")
	record := resourcelock.LeaderElectionRecord{HolderIdentity: "me"}
	if err := config.Lock.Create(t.Context(), record); err != nil || version() != "v1.2.3 1.36" {
		t.Errorf("created with version %q, %v", version(), err)
	}
	stock := lock("stock")
	if _, _, err := stock.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := stock.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "stock"}); err != nil || version() != "" {
		t.Errorf("a stock scheduler that took the lease has version %q, %v", version(), err)
	}
	if _, _, err := config.Lock.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := config.Lock.Update(t.Context(), record); err != nil || version() != "v1.2.3 1.36" {
		t.Errorf("taken back with version %q, %v", version(), err)
	}
}
