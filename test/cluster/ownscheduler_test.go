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

// ownScheduler is a scheduler that a test has started in addition to the cluster's.
type ownScheduler struct {
	*test
	command *exec.Cmd
	log     logtext.Log
	ended   chan struct{}
}

// ownConfiguration returns Pinfold's default configuration for pods with schedulerName ownName,
// with this lease and this kubeconfig.
func (c *test) ownConfiguration(election, connection string) string {
	text := scheduler.DefaultConfiguration
	begin, end := strings.Index(text, "leaderElection:"), strings.Index(text, "profiles:")
	text = text[:begin] + "leaderElection: " + election + "\nclientConnection: " + connection + "\n" + text[end:]
	return strings.Replace(text, "schedulerName: default-scheduler", "schedulerName: "+ownName, 1)
}

// startScheduler runs a scheduler with more flags until it ends or the test does.
func (c *test) startScheduler(configuration string, flags ...string) *ownScheduler {
	c.Helper()
	file := filepath.Join(c.TempDir(), "scheduler.yaml")
	c.must(os.WriteFile(file, []byte(configuration), 0o600))
	kubeconfig := filepath.Join(c.dir, "config", localcluster.Scheduler+".kubeconfig")
	s := &ownScheduler{test: c, ended: make(chan struct{})}
	s.command = exec.Command(c.binary, append([]string{"component", localcluster.Scheduler, "--config=" + file, "--secure-port=0",
		"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig}, flags...)...)
	s.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.command.Stdout, s.command.Stderr = &s.log, &s.log
	c.must(s.command.Start())
	go func() { _ = s.command.Wait(); close(s.ended) }()
	c.Cleanup(func() {
		_ = s.command.Process.Kill()
		<-s.ended
		if c.Failed() {
			c.Logf("scheduler %d:\n%s", s.command.Process.Pid, s.log.String())
		}
	})
	return s
}
