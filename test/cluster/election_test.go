package cluster

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/kube/scheduler"
	"pinfold.dev/pinfold/lab/localcluster"
)

// TestSecondSchedulerWaits: a scheduler that is started in addition to the cluster's waits for the
// lease, and takes over when the other one is gone.
func TestSecondSchedulerWaits(t *testing.T) {
	c := begin(t)
	own := c.leader()
	kubeconfig := filepath.Join(c.dir, "config", localcluster.Scheduler+".kubeconfig")
	second := c.startScheduler(fmt.Sprintf("%sclientConnection: {kubeconfig: %q}\n", scheduler.DefaultConfiguration, kubeconfig))
	second.awaitLog("ttempting to acquire leader lease")
	c.create(`
metadata: {name: p, annotations: {cpuset-scheduler: "true"}}
spec:
  containers:
  - {name: app, image: app, resources: {limits: {cpu: 2}}}
`)
	c.allBound(1)
	if log := second.log.String(); c.leader() == own && strings.Contains(log, "uccessfully acquired lease") {
		t.Errorf("both schedulers lead:\n%s", log)
	}
}

// leader returns the holder of the schedulers' lease.
func (c *test) leader() (holder string) {
	c.Helper()
	c.eventually(func() string {
		lease, err := c.client.CoordinationV1().Leases("kube-system").Get(c.Context(), "kube-scheduler", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
			return "no scheduler leads"
		}
		holder = *lease.Spec.HolderIdentity
		return ""
	})
	return holder
}
