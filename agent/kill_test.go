package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/test/must"
)

// childVariable has the options of a copy of this program that runs as an agent to be killed.
const childVariable = "PINFOLD_TEST_AGENT"

type childOptions struct {
	Root, Groups, RunDir string // Groups is the kubelet's cgroupRoot
	CPU                  string // of the bound pod
	Listen, Reviews      string // the address of metrics, and the URL of an API server that reviews tokens
}

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		if err := runChild(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// runChild runs an agent for two pods.
func runChild() error {
	var c childOptions
	if err := json.Unmarshal([]byte(os.Getenv(childVariable)), &c); err != nil {
		return err
	}
	bound, beside := newPod("bound", c.CPU), newPod("beside", "")
	run(bound, containerID('a'))
	run(beside, containerID('b'))
	w := makeWorld(bound, beside)
	w.root, w.runDir, w.kubelet.CgroupRoot = c.Root, c.RunDir, c.Groups
	o := w.options()
	if c.Reviews != "" {
		reviews, err := kubernetes.NewForConfig(&rest.Config{Host: c.Reviews})
		if err != nil {
			return err
		}
		o.Listen, o.Secure = c.Listen, &Secure{Reviews: reviews}
	}
	return Run(context.Background(), o)
}

// TestKill kills agents at different moments of their work. The settings in force must be valid
// each time, and the next agent must complete them.
func TestKill(t *testing.T) {
	tree := newHostTree(t)
	own, rest := tree.divide()
	online := own.Union(rest)
	bound, beside := newPod("bound", own.String()), newPod("beside", "")
	groupBound, _ := tree.container(bound, containerID('a'))
	groupBeside, _ := tree.container(beside, containerID('b'))
	options := childOptions{Root: "/", Groups: tree.root, RunDir: t.TempDir(), CPU: own.String()}
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
		_, kill := startChild(t, options)
		time.Sleep(time.Duration(20+10*i) * time.Millisecond)
		kill()
		if err := errors.Join(allowed(groupBound, online, own), allowed(groupBeside, online, rest)); err != nil {
			t.Errorf("killed after %d ms: %v", 20+10*i, err)
		}
	}
	_, kill := startChild(t, options)
	w := &world{t: t}
	enforced := func() error { return errors.Join(allowed(groupBound, own), allowed(groupBeside, rest)) }
	w.eventually(enforced)
	kill()
	if err := enforced(); err != nil {
		t.Errorf("after the last kill: %v", err)
	}
}

func startChild(t testing.TB, o childOptions) (pid int, kill func()) {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), childVariable+"="+string(must.Get(json.Marshal(o))(t)))
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	command.Stderr = os.Stderr
	must.Do(t, command.Start())
	kill = func() {
		if err := command.Process.Kill(); err != nil {
			t.Errorf("the agent had already ended: %v", err)
		}
		_ = command.Wait() // it was killed
	}
	return command.Process.Pid, kill
}
