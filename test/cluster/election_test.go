package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/kube/scheduler"
	"pinfold.dev/pinfold/lab/localcluster"
	"pinfold.dev/pinfold/test/logtext"
)

// TestSecondSchedulerWaits: a scheduler that is started in addition to the cluster's waits for the
// lease, and takes over when the other one is gone.
func TestSecondSchedulerWaits(t *testing.T) {
	c := begin(t)
	own := c.leader()
	kubeconfig := filepath.Join(c.dir, "config", localcluster.Scheduler+".kubeconfig")
	config := filepath.Join(t.TempDir(), "scheduler.yaml")
	text := fmt.Sprintf("%sclientConnection: {kubeconfig: %q}\n", scheduler.DefaultConfiguration, kubeconfig)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", c.schedulerPID()))
	if err != nil {
		t.Fatal(err)
	}
	var log logtext.Log
	second := exec.Command(program, "component", localcluster.Scheduler, "--config="+config, "--secure-port=0",
		"--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig)
	second.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	second.Stdout, second.Stderr = &log, &log
	if err := second.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = second.Process.Kill(); _ = second.Wait() }()
	logs := func(text string) func() string {
		return func() string {
			if strings.Contains(log.String(), text) {
				return ""
			}
			return fmt.Sprintf("the second scheduler's log lacks %q", text)
		}
	}
	const leads = "uccessfully acquired lease"
	c.eventually(logs("ttempting to acquire leader lease"))
	c.create(`
metadata: {name: p, annotations: {cpuset-scheduler: "true"}}
spec:
  containers:
  - {name: app, image: app, resources: {limits: {cpu: 2}}}
`)
	c.allBound(1)
	if c.leader() == own && strings.Contains(log.String(), leads) {
		t.Errorf("both schedulers lead:\n%s", log.String())
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
