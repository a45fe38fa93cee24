package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"pinfold.dev/pinfold/test/must"
)

// childVariable has the options of a copy of this program that runs as an agent to be killed.
const childVariable = "PINFOLD_TEST_AGENT"

type childOptions struct {
	Root, Groups, RunDir string // Groups is the kubelet's cgroupRoot
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
	bound, beside := asking("bound"), newPod("beside")
	run(bound, containerID('a'))
	run(beside, containerID('b'))
	w := makeWorld(bound, beside)
	w.root, w.runDir, w.kubelet.CgroupRoot = c.Root, c.RunDir, c.Groups
	reviews, err := kubernetes.NewForConfig(&rest.Config{Host: c.Reviews})
	if err != nil {
		return err
	}
	o := w.options()
	o.Listen, o.Secure = c.Listen, &Secure{Reviews: reviews}
	return Run(context.Background(), o)
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
