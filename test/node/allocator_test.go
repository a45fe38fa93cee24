package node

import (
	"errors"
	"fmt"
	"os"
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
	"pinfold.dev/pinfold/lab/localcluster"
	"pinfold.dev/pinfold/lab/localnode"
	"pinfold.dev/pinfold/test/must"
)

// TestAllocator checks a node whose agent allocates, with pods that no scheduler has seen: one gets
// an exclusive CPU before its container starts, and one that requests too little is told why. After
// the agent was killed, with and without what it has saved, the CPU is the same. When the pod has
// gone, another one gets its CPU.
func TestAllocator(t *testing.T) {
	requireNode(t)
	c := start(t, "--allocator=node")
	k := openKernel(t)
	pod := func(name, port, request string) *corev1.Pod {
		one := container("main", port, "1")
		one.Resources.Requests[corev1.ResourceCPU] = resource.MustParse(request)
		pod := podOf(name, "static", one)
		pod.Spec.NodeName = localnode.Name
		return c.run(t, pod)
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
	pod("small", "8002", "50m")
	eventually(t, "an event", func() error {
		events, err := c.client.CoreV1().Events(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=CPUsNotGiven"})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.InvolvedObject.Name == "small" && strings.Contains(e.Message, "limits.cpu 1 and requests.cpu 0.05") {
				return nil
			}
		}
		return fmt.Errorf("events %+v", events.Items)
	})

	topologies := must.Get(nodetopology.NewClient(connection(t, filepath.Join(c.dir, "kubeconfig"))))(t)
	published := func(pod *corev1.Pod, want cpuset.Set) func() error {
		return func() error {
			object, err := topologies.Get(t.Context(), localnode.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			_, state, err := nodetopology.ToMachine(object)
			if err != nil || state.Given == nil || len(state.Given.Pods) != 1 || state.Given.Pods[pod.UID].Containers[0].CPUs != want {
				return errors.Join(err, fmt.Errorf("published %+v", state.Given))
			}
			return nil
		}
	}
	eventually(t, "what is published", published(first, own))
	saved := filepath.Join(c.agentFlag(t, "run-dir"), "allocations.json")
	for _, before := range []func(){func() {}, func() { must.Do(t, os.Remove(saved)) }} {
		agent := c.pid(t, localnode.Agent)
		before()
		must.Do(t, syscall.Kill(agent, syscall.SIGKILL))
		eventually(t, "the next agent's round", func() error {
			state, err := localcluster.ReadState(c.dir)
			if err != nil {
				return err
			}
			if is, _ := state.Component(localnode.Agent); is.PID == 0 || is.PID == agent {
				return fmt.Errorf("process %d", is.PID)
			}
			_, err = os.Stat(saved)
			if text := c.metrics(t); strings.Contains(text, "\npinfold_reconciles_total 0\n") {
				err = errors.Join(err, errors.New("no round yet"))
			}
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
}
