package scheduler

import (
	"context"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A node whose reserved amount grows beyond what its pods leave is reported, and so is the end of
// that.
func TestReservedAmountOverflow(t *testing.T) {
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

// A topology about an earlier node of the same name is logged once per change, not at every audit.
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

// awaitOverflow waits until the auditor's last report about a node is the wanted one.
func (s *scenario) awaitOverflow(node, want string) {
	s.t.Helper()
	a, got := s.plugin.shared.auditor, ""
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		a.mu.Lock()
		got = a.reported["overflow/"+node]
		a.mu.Unlock()
		if got == want {
			return
		}
	}
	s.t.Fatalf("the auditor reports %q about node %s, want %q", got, node, want)
}

// Long annotations are shortened to the limit for events.
func TestLongAnnotationsFitIntoEvents(t *testing.T) {
	s := &scenario{fakeCluster: newFakeCluster(t, DefaultConfiguration), seen: map[string]string{}}
	for _, command := range []string{"node n1 cores=4", "pod plain request=1 cpu-policy=" + strings.Repeat("ö", 1000)} {
		s.run(strings.Fields(command))
		s.awaitIdle()
	}
	events := 0
	for _, line := range s.changes() {
		if _, note, ok := strings.Cut(line, "event on plain: "+eventIgnored+": "); ok {
			events++
			if len(note) > 1024 || !utf8.ValidString(note) {
				t.Errorf("the event has %d bytes, want at most 1024 of valid UTF-8: %s", len(note), note)
			}
		}
	}
	if events != 1 {
		t.Errorf("%d events, want 1", events)
	}
}
