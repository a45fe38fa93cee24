package command

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	fwk "k8s.io/kube-scheduler/framework"
	k8sscheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/profile"

	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/scheduler"
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

// admitsAll has the plugin's name and decides nothing.
type admitsAll struct{}

func (admitsAll) Name() string { return scheduler.Name }

func (admitsAll) Filter(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeInfo) *fwk.Status {
	return nil
}

// TestUsesPlugin: a scheduler none of whose profiles uses the plugin is a stock one.
func TestUsesPlugin(t *testing.T) {
	metrics.Register()
	registry := frameworkruntime.Registry{queuesort.Name: queuesort.New, defaultbinder.Name: defaultbinder.New,
		scheduler.Name: func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return admitsAll{}, nil }}
	framework := func(names ...string) *k8sscheduler.Scheduler {
		plugins := &config.Plugins{}
		for _, name := range append(names, queuesort.Name, defaultbinder.Name) {
			plugins.MultiPoint.Enabled = append(plugins.MultiPoint.Enabled, config.Plugin{Name: name})
		}
		f := must.Get(frameworkruntime.NewFramework(t.Context(), registry, &config.KubeSchedulerProfile{SchedulerName: "s", Plugins: plugins}))(t)
		return &k8sscheduler.Scheduler{Profiles: profile.Map{"s": f}}
	}
	if usesPlugin(framework()) || !usesPlugin(framework(scheduler.Name)) {
		t.Error("a scheduler with the plugin is not told from one without")
	}
}
