package scheduler

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A node whose reserved amount grows beyond what its pods leave is reported, and so is the end of
// that.
func TestReservedAmountOverflow(t *testing.T) {
	s := newScenario(t, DefaultConfiguration, "node n1 cores=8", "pod asks cpus=6")
	const over, ended = "3 CPUs are requested of the shared CPUs or reserved, 2 are shared", "no longer overcommitted"
	if log := s.log.String(); strings.Contains(log, "overcommitted") {
		t.Errorf("reported at the start:\n%s", log)
	}
	s.setAllocatable("n1", "5")
	s.eventually("the overflow is not reported", func() bool { return strings.Contains(s.log.String(), over) })
	s.setAllocatable("n1", "6")
	s.eventually("the end of the overflow is not reported", func() bool { return strings.Contains(s.log.String(), ended) })
}

// A topology about an earlier node of the same name is logged once per change, not at every audit.
func TestStaleTopologyIsLoggedOnce(t *testing.T) {
	s := newScenario(t, DefaultConfiguration, "node n0 cores=4", "pod first cpus=1") // audits begin with the first pod
	for step, test := range []struct {
		command string
		logged  int // so far
	}{
		{"node n1 cores=8 uid=second", 0},
		{"report n1 cores=8 owner=first", 1},
		{"report n1 cores=8 owner=zeroth", 2},
		{"report n1 cores=8 owner=second", 2},
		{"report n1 cores=8 owner=zeroth", 3},
	} {
		s.play(test.command)
		for range 3 {
			s.plugin.shared.auditor.NodeChanged("n1")
			s.awaitIdle()
		}
		if got := strings.Count(s.log.String(), "about an earlier node of the same name"); got != test.logged {
			t.Errorf("after step %d, %s: logged %d times, want %d:\n%s", step, test.command, got, test.logged, s.log.String())
		}
	}
}

func (s *scenario) setAllocatable(node, cpu string) {
	s.t.Helper()
	nodes := s.client.CoreV1().Nodes()
	obj, err := nodes.Get(context.Background(), node, metav1.GetOptions{})
	s.must(err)
	obj.ResourceVersion = s.nextVersion()
	obj.Status.Allocatable["cpu"] = resource.MustParse(cpu)
	_, err = nodes.UpdateStatus(context.Background(), obj, metav1.UpdateOptions{})
	s.must(err)
}
