package node

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/core/qos"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/local/localcluster"
	"pinfold.dev/pinfold/local/localnode"
	"pinfold.dev/pinfold/test/must"
)

// agentCommand returns a command of pinfold-agent for this node.
func (s *settled) agentCommand(command string, more ...string) (output string, err error) {
	args := append([]string{command, "--node-name=" + localnode.Name,
		"--kubeconfig=" + filepath.Join(s.dir, "config", localnode.Agent+".kubeconfig")}, more...)
	text, err := exec.Command(filepath.Join(filepath.Dir(s.program), "pinfold-agent"), args...).CombinedOutput()
	return string(text), err
}

// nodeFile finds a file of the node in the data directory.
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

func (s *cluster) pid(t testing.TB, component string) int {
	t.Helper()
	state := must.Get(localcluster.ReadState(s.dir))(t)
	status, ok := state.Component(component)
	if !ok || status.PID == 0 {
		t.Fatalf("%s is not running: %+v", component, state.Components)
	}
	return status.PID
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
