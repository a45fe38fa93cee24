package node

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/local/localnode"
	"pinfold.dev/pinfold/test/must"
)

// testCleanup ends the agent for good and runs cleanup: each pod has the settings of the kubelet
// then, and the API server has nothing of the agent's. The next agent finds a node as it was at the
// beginning.
func (s *settled) testCleanup(t *testing.T) {
	agent := s.pid(t, localnode.Agent)
	resume := s.cleanUp(t)
	defer resume()
	for _, pod := range s.pods {
		if err := s.expectKubelets(pod); err != nil {
			t.Errorf("pod %s after cleanup: %v", pod.Name, err)
		}
	}
	resume()
	s.awaitSuccessor(t, localnode.Agent, agent)
	eventually(t, "settings of the next agent", s.check)
}

// cleanUp ends the agent for good, runs cleanup, and checks that the API server has nothing of the
// agent's then. No agent starts until resume is called.
func (s *settled) cleanUp(t *testing.T) (resume func()) {
	t.Helper()
	agent, runDir, kubeletCA := s.pid(t, localnode.Agent), s.agentFlag(t, "run-dir"), s.kubeletCA(t)
	resume = s.stopSupervisor(t)
	t.Cleanup(resume)
	must.Do(t, syscall.Kill(agent, syscall.SIGKILL))
	// The process loses its lock a moment later, and remains until its parent runs again.
	eventually(t, "cleanup", func() error {
		output, err := s.agentCommand("cleanup", "--run-dir="+runDir, "--kubelet-ca="+kubeletCA)
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, output)
		}
		return err
	})
	var node *corev1.Node
	must.Do(t, answered(t, func(ctx context.Context) (err error) {
		node, err = s.client.CoreV1().Nodes().Get(ctx, localnode.Name, metav1.GetOptions{})
		return err
	}))
	for _, c := range node.Status.Conditions {
		if c.Type == nodetopology.BindingCondition || c.Type == api.BatchStarved {
			t.Errorf("the node still has the condition %+v", c)
		}
	}
	if _, offered := node.Status.Capacity[api.BatchCPU]; offered {
		t.Errorf("the node still offers %s", api.BatchCPU)
	}
	err := answered(t, func(ctx context.Context) error {
		_, err := s.client.CoordinationV1().Leases(nodetopology.LeaseNamespace).Get(ctx, localnode.Name, metav1.GetOptions{})
		return err
	})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the agent's lease: error %v, want that it does not exist", err)
	}
	return resume
}

// stopSupervisor stops the process that would start an ended component again, until resume is
// called.
func (s *cluster) stopSupervisor(t *testing.T) (resume func()) {
	t.Helper()
	must.Do(t, s.command.Process.Signal(syscall.SIGSTOP))
	return func() { _ = s.command.Process.Signal(syscall.SIGCONT) } // no effect the second time
}

// expectKubelets compares the settings of a pod and its containers with those that the kubelet
// makes of the limits.
func (s *settled) expectKubelets(pod *corev1.Pod) error {
	all := s.own.Union(s.shared)
	total := settings{cpus: all}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		want := settings{cpus: all, quota: bandwidth.Unlimited}
		if limit, limited := c.Resources.Limits[corev1.ResourceCPU]; limited {
			want.quota = 100 * time.Millisecond * time.Duration(limit.MilliValue()) / 1000
		}
		if want.quota == bandwidth.Unlimited || total.quota == bandwidth.Unlimited {
			total.quota = bandwidth.Unlimited
		} else {
			total.quota += want.quota
		}
		if err := s.kernel.expectContainer(pod, c.Name, want); err != nil {
			return err
		}
	}
	group := s.kernel.podGroup(pod)
	if err := s.kernel.expect(group, total); err != nil {
		return err
	}
	have, err := s.kernel.groups.Read(group)
	if err == nil && have.Idle {
		err = fmt.Errorf("%s still has idle priority", group)
	}
	return err
}
