package scheduler

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	fwk "k8s.io/kube-scheduler/framework"

	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/test/must"
)

// withCeilings adds ceilings per pod and per namespace to a configuration.
func withCeilings(configuration string) string {
	return strings.Replace(configuration, "      minSharedCPUs: 1\n", `      minSharedCPUs: 1
      ceilings:
        default: {exclusiveCPUs: {perPod: 4, perNamespace: 6}}
        namespaces: {forbidden: {exclusiveCPUs: {perPod: 0}}, free: {exclusiveCPUs: {perPod: 100, perNamespace: 100}}}
`, 1)
}

// Neither pods nor namespaces get more exclusive CPUs than the administrator allows.
func TestCeilings(t *testing.T) {
	const allowed = "the administrator allows"
	s := newScenario(t, withCeilings(DefaultConfiguration))
	for _, test := range []struct {
		command string
		want    []string
	}{
		{"node n1 cores=32", nil},
		{"pod large cpus=5", []string{"large waits: the pod asks for 5 exclusive CPUs: " + allowed + " 4 per pod in its namespace"}},
		{"pod first cpus=4", []string{"first on n1: static 0-3 of NUMA [0]"}},
		{"pod second cpus=3", []string{"second waits: the pod asks for 3 exclusive CPUs and its namespace has 4: " + allowed + " the namespace 6"}},
		{"pod third cpus=2", []string{"third on n1: static 4-5 of NUMA [0]"}},
		{"pod shares request=8", []string{"shares on n1"}},
		{"pod burst cpus=4 cpu-policy=static-burst", []string{"burst on n1: static-burst  of NUMA [0]"}},
		{"pod none cpus=1 namespace=forbidden", []string{"none waits: the pod asks for 1 exclusive CPU: " + allowed + " 0 per pod in its namespace"}},
		{"pod much cpus=10 namespace=free", []string{"much on n1: static 6-15 of NUMA [0]"}},
		{"end third", []string{"third on n1"}},
		{"delete first", []string{"second on n1: static 0-2 of NUMA [0]"}},
		{"edit second pinfold.dev/cpuset-scheduler-", []string{"second on n1"}},
		{"pod fourth cpus=4", []string{"fourth on n1: static 0-3 of NUMA [0]"}},
	} {
		var got []string
		for _, change := range s.play(test.command) {
			change = strings.Replace(change, "0/1 nodes are available: ", "", 1)
			got = append(got, strings.TrimSuffix(change, " (ceilings in the scheduler's configuration)."))
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", test.command, diff)
		}
	}
}

// Reserve checks the ceiling again: pods of a group pass PreFilter before the first of them is
// reserved.
func TestReserveChecksCeiling(t *testing.T) {
	p := barePlugin(t)
	args := must.Get(parseArgs(nil))(t)
	six := 6
	args.Ceilings.Default.ExclusiveCPUs.PerNamespace = &six
	p.args = args
	reportMachine(t, p, "n", topology.Shape{CoresPerLLC: 32}.MustBuild(), 1)
	node := nodeInfoOf("n", 32)
	first, second := askingPod("first", 4), askingPod("second", 4)
	firstCycle, secondCycle := startCycle(t, p, first, node), startCycle(t, p, second, node)
	assume(t, p, firstCycle, first, node)
	p.handle = snapshotOf{nodes: map[string]fwk.NodeInfo{"n": node.Snapshot()}}
	second.Spec.NodeName = "n"
	status := p.Reserve(context.Background(), secondCycle, second, "n")
	if status.Code() != fwk.Unschedulable || !strings.Contains(status.Message(), "its namespace has 4") {
		t.Errorf("the second pod exceeds the ceiling, and its status is %v", status)
	}
}

// What an agent is to allocate counts as soon as the pod is bound, and what it has allocated for as long as
// the pod stays.
func TestCeilingsOfAllocations(t *testing.T) {
	s := newScenario(t, withCeilings(DefaultConfiguration), "node n1 cores=32", "pod first cpus=4", "pod second cpus=2",
		"pod burst cpus=4 cpu-policy=static-burst", "pod third cpus=2")
	const waits = "third waits: 0/1 nodes are available: the pod asks for 2 exclusive CPUs and its namespace has 6: " +
		"the administrator allows the namespace 6 (ceilings in the scheduler's configuration)."
	if s.seen["third"] != waits {
		t.Errorf("%s\nwant %s", s.seen["third"], waits)
	}
	s.play("report n1 cores=32 gave=first:0-3/second:4-5")
	if s.play("pod fourth cpus=1"); !strings.Contains(s.seen["fourth"], "its namespace has 6") {
		t.Error(s.seen["fourth"])
	}
	if s.play("delete fourth", "delete second"); s.seen["third"] != "third on n1: static 4-5 of NUMA [0]" {
		t.Error(s.seen["third"])
	}
}
