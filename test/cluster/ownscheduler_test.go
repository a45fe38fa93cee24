package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"pinfold.dev/pinfold/kube/scheduler"
	"pinfold.dev/pinfold/local/localcluster"
	"pinfold.dev/pinfold/test/logtext"
)

// ownName is the schedulerName of pods that a test's own schedulers place.
const ownName = "own"

// ownConfiguration returns Pinfold's default configuration for pods with schedulerName ownName,
// with this lease and this kubeconfig.
func (c *test) ownConfiguration(election, connection string) string {
	text := scheduler.DefaultConfiguration
	begin, end := strings.Index(text, "leaderElection:"), strings.Index(text, "profiles:")
	text = text[:begin] + "leaderElection: " + election + "\nclientConnection: " + connection + "\n" + text[end:]
	return strings.Replace(text, "schedulerName: default-scheduler", "schedulerName: "+ownName, 1)
}

// startScheduler runs a scheduler with more flags, in addition to the cluster's, until the test ends.
func (c *test) startScheduler(configuration string, flags ...string) {
	c.Helper()
	file := filepath.Join(c.TempDir(), "scheduler.yaml")
	c.must(os.WriteFile(file, []byte(configuration), 0o600))
	kubeconfig := filepath.Join(c.dir, "config", localcluster.Scheduler+".kubeconfig")
	command := exec.Command(c.binary, append([]string{"component", localcluster.Scheduler, "--config=" + file, "--secure-port=0",
		"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig}, flags...)...)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var log logtext.Log
	command.Stdout, command.Stderr = &log, &log
	c.must(command.Start())
	c.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if c.Failed() {
			c.Logf("scheduler %d:\n%s", command.Process.Pid, log.String())
		}
	})
}
