package scheduler

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A node that keeps back more than its pods leave is reported, although none of its
// pods has changed, and so is that it suffices again.
func TestShrunkNodeIsReported(t *testing.T) {
	s := &scenario{fakeCluster: newFakeCluster(t, DefaultConfiguration), seen: map[string]string{}}
	for _, command := range []string{"node n1 cores=8", "pod asks cpus=6"} {
		s.run(strings.Fields(command))
		s.awaitIdle()
	}
	s.awaitOverflow("n1", "")
	s.setAllocatable("n1", "5")
	s.awaitOverflow("n1", "3 CPUs are requested of the shared CPUs or reserved, 2 are shared")
	s.setAllocatable("n1", "6")
	s.awaitOverflow("n1", "")
}

// A topology about an earlier node of the same name is logged once for each change, and
// not at every audit.
func TestStaleTopologyIsLoggedOnce(t *testing.T) {
	s := &scenario{fakeCluster: newFakeCluster(t, DefaultConfiguration), seen: map[string]string{}}
	a := s.plugin.shared.auditor
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
		s.run(strings.Fields(test.command))
		s.awaitIdle()
		for range 3 {
			a.audit("n1")
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

// awaitOverflow waits for what the auditor last said about a node.
func (s *scenario) awaitOverflow(node, want string) {
	s.t.Helper()
	a, got := s.plugin.shared.auditor, ""
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		a.mu.Lock()
		got = a.overflows[node]
		a.mu.Unlock()
		if got == want {
			return
		}
	}
	s.t.Fatalf("of node %s the auditor says %q, want %q", node, got, want)
}
