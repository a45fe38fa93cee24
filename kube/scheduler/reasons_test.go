package scheduler

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// The message is composed by the framework's own FitError, as in a pod's event.
func TestReport(t *testing.T) {
	exclusive := func(have int64) finding {
		return finding{shortage: shortage{kind: noExclusive, want: 8}, have: have}
	}
	missing := finding{shortage: shortage{kind: noTopology}}
	bad := func(detail string) finding {
		return finding{shortage: shortage{kind: badTopology}, detail: detail}
	}
	for _, test := range []struct {
		name  string
		nodes []finding // of n1, n2, ...
		want  string
	}{
		{"two reasons", []finding{exclusive(4), exclusive(6), missing},
			"1 has not reported its CPU topology, 2 have fewer than 8 exclusive CPUs left (most: 6 on n2)."},
		{"equal figures", []finding{exclusive(6), exclusive(6)}, "2 have fewer than 8 exclusive CPUs left (most: 6 on n1)."},
		{"several without topology", []finding{missing, missing}, "2 have not reported their CPU topology."},
		{"detail of the first", []finding{bad("b"), bad("b2")}, "2 have reported CPU topologies that cannot be used (b)."},
		{"given up", []finding{{shortage: shortage{kind: gaveUp, want: 49}}},
			"1 has too many ways to choose 49 CPUs."},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newReport()
			statuses := framework.NewDefaultNodeToStatus()
			for i, f := range test.nodes {
				node := fmt.Sprintf("n%d", i+1)
				r.status(node, finding{shortage: shortage{kind: tooSmall}}) // replaced by the second
				statuses.Set(node, r.status(node, f))
			}
			err := &framework.FitError{Pod: &corev1.Pod{}, NumAllNodes: len(test.nodes), Diagnosis: framework.Diagnosis{NodeToStatus: statuses}}
			want := fmt.Sprintf("0/%d nodes are available: %s", len(test.nodes), test.want)
			if got := err.Error(); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// Preemption is only tried if evicting pods can help.
func TestReportCodes(t *testing.T) {
	for kind, want := range map[shortageKind]fwk.Code{
		noTopology: fwk.UnschedulableAndUnresolvable, badTopology: fwk.UnschedulableAndUnresolvable,
		badKubelet: fwk.UnschedulableAndUnresolvable, tooSmall: fwk.UnschedulableAndUnresolvable,
		noExclusive: fwk.Unschedulable, noWholeCores: fwk.Unschedulable, oddCores: fwk.Unschedulable, gaveUp: fwk.Unschedulable, noConfinement: fwk.Unschedulable, noShared: fwk.Unschedulable,
	} {
		if got := newReport().status("n", finding{shortage: shortage{kind: kind}}).Code(); got != want {
			t.Errorf("kind %d: %v, want %v", kind, got, want)
		}
	}
}
