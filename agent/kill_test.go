package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup"
)

// The environment variables of a copy of this program that runs as an agent to be killed.
const (
	childGroups = "PINFOLD_TEST_AGENT_GROUPS" // the kubelet's cgroupRoot
	childRunDir = "PINFOLD_TEST_AGENT_RUN_DIR"
)

func TestMain(m *testing.M) {
	if os.Getenv(childGroups) != "" {
		if err := runChild(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// runChild runs an agent for the pods of TestKill.
func runChild() error {
	bound, beside := asking("bound"), newPod("beside")
	run(bound, containerID('a'))
	run(beside, containerID('b'))
	w := makeWorld(bound, beside)
	w.root, w.runDir = "/", os.Getenv(childRunDir)
	w.kubelet.CgroupRoot = os.Getenv(childGroups)
	return Run(context.Background(), w.options())
}

// TestKill kills agents at different moments of their work. The settings in force must be valid
// each time, and the next agent must complete them.
func TestKill(t *testing.T) {
	tree := newHostTree(t)
	own, rest := tree.divide()
	online := own.Union(rest)
	bound, beside := asking("bound"), newPod("beside")
	groupBound, _ := tree.container(bound, containerID('a'))
	groupBeside, _ := tree.container(beside, containerID('b'))
	runDir := t.TempDir()
	widen := func() { // as the kubelet creates them, parents first: a cgroup must contain its children's CPUs
		tree.set(groupBound, cgroup.CPUSetCPUs, online.String())
		tree.set(groupBeside, cgroup.CPUSetCPUs, online.String())
		tree.set(groupBound, cgroup.CPUCFSQuota, "100000")
	}
	allowed := func(group string, want ...cpuset.Set) error {
		s, err := tree.fs.Read(group)
		if err != nil {
			return err
		}
		for _, w := range want {
			if s.CPUs == w {
				return nil
			}
		}
		return fmt.Errorf("%s has CPUs %q", group, s.CPUs)
	}
	for i := range 12 {
		widen()
		kill := startChild(t, tree.root, runDir)
		time.Sleep(time.Duration(20+10*i) * time.Millisecond)
		kill()
		if err := errors.Join(allowed(groupBound, online, own), allowed(groupBeside, online, rest)); err != nil {
			t.Errorf("killed after %d ms: %v", 20+10*i, err)
		}
	}
	kill := startChild(t, tree.root, runDir)
	w := &world{t: t}
	enforced := func() error { return errors.Join(allowed(groupBound, own), allowed(groupBeside, rest)) }
	w.eventually(enforced)
	kill()
	if err := enforced(); err != nil {
		t.Errorf("after the last kill: %v", err)
	}
}

func startChild(t *testing.T, groups, runDir string) (kill func()) {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), childGroups+"="+groups, childRunDir+"="+runDir)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() {
		if err := command.Process.Kill(); err != nil {
			t.Errorf("the agent had already ended: %v", err)
		}
		_ = command.Wait() // it was killed
	}
	return kill
}
