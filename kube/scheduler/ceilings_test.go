package scheduler

import (
	"context"
	"strings"
	"testing"

	fwk "k8s.io/kube-scheduler/framework"

	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/test/golden"
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

// Neither pods nor namespaces get more exclusive CPUs than the administrator allows. What an agent is to
// allocate counts as soon as the pod is bound, and what it has allocated for as long as the pod stays.
func TestCeilings(t *testing.T) {
	golden.Scenarios(t, "testdata/ceilings.txt", func(t *testing.T, text string) string {
		return replay(t, text, withCeilings(DefaultConfiguration))
	})
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
	if status.Code() != fwk.Unschedulable || !strings.Contains(status.Message(), "its namespace has or wants 4") {
		t.Errorf("the second pod exceeds the ceiling, and its status is %v", status)
	}
}
