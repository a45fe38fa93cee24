package node

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/core/qos"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/local/localcluster"
	"pinfold.dev/pinfold/local/localnode"
	"pinfold.dev/pinfold/test/must"
)

// testFaults removes what the agent depends on, for longer than a restart.
func (s *settled) testFaults(t *testing.T) {
	eventually(t, "settings", s.check)
	t.Run("doctor", s.testDoctor)
	t.Run("second agent", s.testSecondAgent)
	t.Run("API server hangs while the agent starts", s.testHangingAPIServer)
	t.Run("runtime without NRI", s.testWithoutNRI)
	t.Run("kubelet binds CPUs itself", s.testStaticPolicy)
	t.Run("cleanup", s.testCleanup)
}

// agentCommand returns a command of pinfold-agent for this node.
func (s *settled) agentCommand(command string, more ...string) (output string, err error) {
	args := append([]string{command, "--node-name=" + localnode.Name,
		"--kubeconfig=" + filepath.Join(s.dir, "config", localnode.Agent+".kubeconfig")}, more...)
	text, err := exec.Command(filepath.Join(filepath.Dir(s.program), "pinfold-agent"), args...).CombinedOutput()
	return string(text), err
}

// nodeFile finds a file of the node in the data directory.
func (s *settled) nodeFile(t *testing.T, pattern string) string {
	t.Helper()
	return nodeFile(t, s.dir, pattern)
}

func nodeFile(t *testing.T, dir, pattern string) string {
	t.Helper()
	var found []string
	for _, levels := range []string{"", "*", "*/*", "*/*/*"} {
		paths := must.Get(filepath.Glob(filepath.Join(dir, levels, pattern)))(t)
		found = append(found, paths...)
	}
	if len(found) != 1 {
		t.Fatalf("%s: %v", pattern, found)
	}
	return found[0]
}

// edit changes a file of the node and restores it at the end of the test.
func edit(t *testing.T, path, old, replacement string) (restore func()) {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	changed := bytes.Replace(text, []byte(old), []byte(replacement), 1)
	if bytes.Equal(changed, text) {
		t.Fatalf("%s does not contain %q:\n%s", path, old, text)
	}
	must.Do(t, os.WriteFile(path, changed, 0o644))
	return func() {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Error(err)
		}
	}
}

func (s *cluster) pid(t testing.TB, component string) int {
	t.Helper()
	state := must.Get(localcluster.ReadState(s.dir))(t)
	status, ok := state.Component(component)
	if !ok || status.PID == 0 {
		t.Fatalf("%s is not running: %+v", component, state.Components)
	}
	return status.PID
}

func (s *settled) logOf(t *testing.T, component string) string {
	t.Helper()
	state := must.Get(localcluster.ReadState(s.dir))(t)
	status, _ := state.Component(component)
	return status.Log
}

// restart kills a component and waits until its successor is ready.
func (s *cluster) restart(t *testing.T, component string) {
	t.Helper()
	before := s.pid(t, component)
	must.Do(t, syscall.Kill(before, syscall.SIGKILL))
	s.awaitSuccessor(t, component, before)
}

// condition returns the agent's condition of the node.
func (s *cluster) condition(ctx context.Context) (corev1.NodeCondition, error) {
	node, err := s.client.CoreV1().Nodes().Get(ctx, localnode.Name, metav1.GetOptions{})
	if err != nil {
		return corev1.NodeCondition{}, err
	}
	return api.Condition(node, nodetopology.BindingCondition), nil
}

// testDoctor: on a working node, doctor finds no problems.
func (s *settled) testDoctor(t *testing.T) {
	output, err := s.agentCommand("doctor", "--nri-socket="+s.nriSocket(t), "--kubelet-ca="+s.kubeletCA(t))
	if err != nil || !strings.Contains(output, "no problems") {
		t.Errorf("%v\n%s", err, output)
	}
	for _, line := range []string{`ok\s+CPU manager policy\s+none \(the kubelet's configuration\)`, `ok\s+NRI\s+/`,
		`ok\s+kubelet's groups\s+` + naming().Tier(qos.Guaranteed) + `, driver ` + naming().Driver.String() + `, \d+ pods`, `ok\s+condition\s+True`, `ok\s+quota`} {
		if !regexp.MustCompile(line).MatchString(output) {
			t.Errorf("no line like %s in\n%s", line, output)
		}
	}
}

// nriSocket returns the path of containerd's NRI socket.
func (s *cluster) nriSocket(t *testing.T) string {
	t.Helper()
	socket := regexp.MustCompile(`socket_path = "(.*)"`).FindStringSubmatch(readFile(t, nodeFile(t, s.dir, "containerd.toml")))
	if socket == nil {
		t.Fatal("containerd's configuration has no NRI socket")
	}
	return socket[1]
}

// kubeletCA returns the kubelet's CA file, from the running agent's flags.
func (s *settled) kubeletCA(t *testing.T) string {
	t.Helper()
	return s.agentFlag(t, "kubelet-ca")
}

// agentFlag returns the value of a flag of the running agent.
func (s *cluster) agentFlag(t testing.TB, name string) string {
	t.Helper()
	line := readFile(t, fmt.Sprintf("/proc/%d/cmdline", s.pid(t, localnode.Agent)))
	for arg := range strings.SplitSeq(line, "\x00") {
		if value, ok := strings.CutPrefix(arg, "--"+name+"="); ok {
			return value
		}
	}
	t.Fatalf("the agent was started without --%s: %q", name, line)
	return ""
}

func readFile(t testing.TB, path string) string {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	return string(text)
}

// testSecondAgent: two agents cannot run at the same time, and cleanup fails while an agent runs.
func (s *settled) testSecondAgent(t *testing.T) {
	for _, command := range []string{"run", "cleanup"} {
		output, err := s.agentCommand(command, "--run-dir="+s.agentFlag(t, "run-dir"))
		if err == nil || !strings.Contains(output, "another pinfold-agent is running on this machine") {
			t.Errorf("%s: %v\n%s", command, err, output)
		}
	}
	if err := s.check(); err != nil {
		t.Error(err)
	}
}

// testHangingAPIServer: the settings remain, although the agent was restarted and has no
// information.
func (s *settled) testHangingAPIServer(t *testing.T) {
	server := s.pid(t, localcluster.APIServer)
	must.Do(t, syscall.Kill(server, syscall.SIGSTOP))
	resume := func() { _ = syscall.Kill(server, syscall.SIGCONT) } // no effect the second time
	defer resume()
	must.Do(t, syscall.Kill(s.pid(t, localnode.Agent), syscall.SIGKILL))
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if err := s.check(); err != nil {
			t.Fatalf("while the API server hangs: %v", err)
		}
	}
	resume()
	eventually(t, "the condition is true again", func() error {
		c, err := s.condition(t.Context())
		if err == nil && c.Status != corev1.ConditionTrue {
			err = fmt.Errorf("%s: %s", c.Status, c.Message)
		}
		return err
	})
	if err := s.check(); err != nil {
		t.Error(err)
	}
}

// testWithoutNRI: the reconcile loop alone enforces the settings.
func (s *settled) testWithoutNRI(t *testing.T) {
	restore := edit(t, s.nodeFile(t, "containerd.toml"), "io.containerd.nri.v1.nri']", "io.containerd.nri.v1.nri']\n  disable = true")
	defer func() { restore(); s.restart(t, localnode.Containerd) }()
	s.restart(t, localnode.Containerd)
	pod := s.run(t, podOf("without-nri", "", container("main", "8001", "250m")))
	defer s.remove(t, pod.Name)
	want := settings{cpus: s.shared, quota: 25 * time.Millisecond}
	eventually(t, "settings without NRI", func() error { return s.kernel.expectContainer(pod, "main", want) })
	if log := readFile(t, s.logOf(t, localnode.Agent)); !strings.Contains(log, "the reconcile loop alone enforces") {
		t.Errorf("the agent does not log that only the loop enforces settings:\n%s", log)
	}
	if err := s.check(); err != nil {
		t.Error(err)
	}
}

// testStaticPolicy: the agent binds no more pods, reports that, and moves none; and the scheduler
// places no pods that ask for CPUs on the node.
func (s *settled) testStaticPolicy(t *testing.T) {
	config := s.nodeFile(t, "kubelet.yaml")
	restore := edit(t, config, "cpuManagerPolicy: none", "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"")
	state := s.nodeFile(t, "cpu_manager_state")
	removeState := func() {
		if err := os.Remove(state); err != nil {
			t.Error(err)
		}
	}
	removeState()
	defer func() { restore(); removeState(); s.restart(t, localnode.Kubelet); eventually(t, "settings", s.check) }()
	s.restart(t, localnode.Kubelet)
	s.restart(t, localnode.Agent) // so that it asks the kubelet immediately
	eventually(t, "the node's condition", func() error {
		c, err := s.condition(t.Context())
		if err == nil && (c.Status != corev1.ConditionFalse || !strings.Contains(c.Message, "static")) {
			err = fmt.Errorf("%s: %s", c.Status, c.Message)
		}
		return err
	})
	asking := podOf("asks", "static", container("main", "8003", "1"))
	pods := s.client.CoreV1().Pods(asking.Namespace)
	must.Do(t, s.create(t, asking))
	defer s.remove(t, asking.Name)
	eventually(t, "the pod that asks stays pending", func() error {
		pod, err := pods.Get(t.Context(), asking.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && strings.Contains(c.Message, `a kubelet with CPU manager policy "static"`) {
				return nil
			}
		}
		return fmt.Errorf("%+v", pod.Status.Conditions)
	})
	for _, name := range []string{"before", "static", "burst"} {
		eventually(t, "pod "+name+" still serves", func() error {
			connection, err := net.DialTimeout("tcp", s.pods[name].Status.PodIP+":8001", time.Second)
			if err == nil {
				err = connection.Close()
			}
			return err
		})
	}
}
