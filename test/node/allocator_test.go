package node

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/kube/nodetopology/apiclient"
	"pinfold.dev/pinfold/local/localnode"
	"pinfold.dev/pinfold/local/simnode"
	"pinfold.dev/pinfold/test/must"
)

// agentProcess is an agent on a cluster that has nothing else of Pinfold.
type agentProcess struct {
	*exec.Cmd
	saved   string // the file in which it saves what it allocates
	address string
}

// startAgent starts an agent and waits until it is ready.
func (c *cluster) startAgent(t *testing.T, runDir string, flags ...string) *agentProcess {
	t.Helper()
	a := c.runAgent(t, runDir, flags...)
	eventually(t, "the agent", a.ready)
	return a
}

// runAgent starts an agent.
func (c *cluster) runAgent(t *testing.T, runDir string, flags ...string) *agentProcess {
	t.Helper()
	free := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	address := free.Addr().String()
	must.Do(t, free.Close())
	a := &agentProcess{exec.Command(program(t, "pinfold-agent"), "run", "--node-name="+localnode.Name,
		"--kubeconfig="+filepath.Join(c.dir, "kubeconfig"), "--kubelet-ca="+filepath.Join(c.dir, "pki", "ca.crt"), "--run-dir="+runDir,
		"--nri-socket="+c.nriSocket(t), "--listen=", "--health-listen="+address), filepath.Join(runDir, "allocations.json"), address}
	a.Args = append(a.Args, flags...)
	var log bytes.Buffer
	a.Stdout, a.Stderr, a.SysProcAttr = &log, &log, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must.Do(t, a.Start())
	t.Cleanup(func() {
		if a.kill(); t.Failed() {
			t.Log(log.String())
		}
	})
	return a
}

func (a *agentProcess) ready() error {
	answer, err := http.Get("http://" + a.address + "/readyz")
	if err == nil {
		if _ = answer.Body.Close(); answer.StatusCode != http.StatusOK {
			err = errors.New(answer.Status)
		}
	}
	return err
}

func (a *agentProcess) kill() { _, _ = a.Process.Kill(), a.Wait() }

// TestAllocator checks a node under the stock kube-scheduler: a pod gets an exclusive CPU before its
// container starts. One that requests too little to be sure of a CPU is told that none is left, and one
// that names the node is rejected. After the agent was killed, with and without what it has saved, the
// CPU is the same. When the pod has gone, another one gets its CPU. An agent that refuses pods keeps one
// from starting.
func TestAllocator(t *testing.T) {
	requireNode(t)
	c := startWith(t, "--stock")
	must.Do(t, simnode.InstallCRD(t.Context(), connection(t, filepath.Join(c.dir, "kubeconfig"))))
	runDir := t.TempDir()
	agent := c.startAgent(t, runDir)
	k := openKernel(t)
	pod := func(name, port, request string) *corev1.Pod {
		one := container("main", port, "1")
		one.Resources.Requests[corev1.ResourceCPU] = resource.MustParse(request)
		return c.run(t, podOf(name, "static", one))
	}
	first := pod("first", "8001", "1")
	group := k.containerGroup(first, "main")
	own := must.Get(k.groups.Read(group))(t).CPUs
	if own.Len() != 1 {
		t.Fatalf("the first pod has CPUs %q", own)
	}
	holds := func() error {
		return errors.Join(k.expectContainer(first, "main", settings{cpus: own, quota: bandwidth.Unlimited}), k.expectNobodyElseOn(own, group))
	}
	eventually(t, "the first pod's settings", holds)
	c.run(t, podOf("small", "static", container("main", "8002", "1")))
	greedy := podOf("greedy", "static", container("main", "8005", "100")) // bypasses the scheduler, which counts requests
	greedy.Spec.NodeName, greedy.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = localnode.Name, resource.MustParse("100")
	must.Do(t, c.create(t, greedy))
	eventually(t, "a pod that the kubelet rejects", func() error {
		pod, err := c.client.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), "greedy", metav1.GetOptions{})
		if err == nil && pod.Status.Reason != "OutOfcpu" {
			err = fmt.Errorf("is %s: %s", pod.Status.Phase, pod.Status.Reason)
		}
		return err
	})
	must.Do(t, holds())
	c.eventuallySaid(t, "small", "1 exclusive CPU wanted, at most 0 available")

	topologies := must.Get(apiclient.New(connection(t, filepath.Join(c.dir, "kubeconfig"))))(t)
	published := func(pod *corev1.Pod, want cpuset.Set) func() error {
		return func() error {
			object, err := topologies.Get(t.Context(), localnode.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			_, state, err := nodetopology.ToMachine(object)
			if err != nil || len(state.Allocations) != 1 || state.Allocations[pod.UID].Containers[0].CPUs != want {
				return errors.Join(err, fmt.Errorf("published %+v", state.Allocations))
			}
			return nil
		}
	}
	eventually(t, "what is published", published(first, own))
	for _, before := range []func(){func() {}, func() { must.Do(t, os.Remove(agent.saved)) }} {
		agent.kill()
		must.Do(t, holds())
		before()
		agent = c.startAgent(t, runDir)
		eventually(t, "the file with the CPUs", func() error {
			_, err := os.Stat(agent.saved)
			return err
		})
		must.Do(t, holds())
	}
	c.remove(t, "first")
	second := pod("second", "8003", "1")
	eventually(t, "the second pod's settings", func() error {
		return k.expectContainer(second, "main", settings{cpus: own, quota: bandwidth.Unlimited})
	})
	eventually(t, "what is published", published(second, own))

	agent.kill()
	c.startAgent(t, runDir, "--on-failure=refuse")
	refused := podOf("refused", "static", container("main", "8004", "1"))
	must.Do(t, c.create(t, refused))
	eventually(t, "why a pod does not start", func() error {
		pod, err := c.client.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), "refused", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, s := range pod.Status.ContainerStatuses {
			if s.State.Waiting != nil && strings.Contains(s.State.Waiting.Message, "pinfold: it gets no CPUs of its own") {
				return nil
			}
		}
		return fmt.Errorf("%+v", pod.Status.ContainerStatuses)
	})
}
