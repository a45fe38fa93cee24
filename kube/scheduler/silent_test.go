package scheduler

import (
	"context"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/kube/scheduler/agents"
)

// renew renews the lease of a node's agent.
func (s *scenario) renew(node string) {
	s.t.Helper()
	leases := s.client.CoordinationV1().Leases(nodetopology.LeaseNamespace)
	now := metav1.NowMicro()
	lease, err := leases.Get(context.Background(), node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &node, RenewTime: &now}}
		_, err = leases.Create(context.Background(), lease, metav1.CreateOptions{})
	} else {
		lease.Spec.RenewTime = &now
		_, err = leases.Update(context.Background(), lease, metav1.UpdateOptions{})
	}
	s.must(err)
	s.plugin.shared.reports.Renewed(lease) // earlier than the watch
}

// silence lets time pass in which no agent renews its lease.
func (s *scenario) silence(d time.Duration) {
	for ; d > 0; d -= time.Second {
		s.ahead.Add(int64(time.Second))
		s.plugin.shared.reports.Tick()
	}
}

// The condition of a node whose agent is silent is set to Unknown, and only the agent changes it
// back.
func TestConditionOfSilentNode(t *testing.T) {
	s := newScenario(t, DefaultConfiguration, "node n1 cores=4", "report n1 cores=4 lease", "renew n1", "pod asks cpus=1", "silence n1")
	var c corev1.NodeCondition
	s.eventually("the condition is not set", func() bool { c = s.condition("n1"); return c.Status != "" })
	if c.Status != corev1.ConditionUnknown || c.Reason != agents.SilentReason || !strings.Contains(c.Message, "lease pinfold-system/n1 since 20") {
		t.Errorf("the condition is %+v", c)
	}
	s.play("renew n1")
	if again := s.condition("n1"); again != c {
		t.Errorf("the scheduler has changed the condition to %+v", again)
	}
}

func (s *scenario) condition(node string) corev1.NodeCondition {
	s.t.Helper()
	obj, err := s.client.CoreV1().Nodes().Get(context.Background(), node, metav1.GetOptions{})
	s.must(err)
	for _, c := range obj.Status.Conditions {
		if c.Type == nodetopology.BindingCondition {
			return c
		}
	}
	return corev1.NodeCondition{}
}
