package scheduler

import (
	"context"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/kube/scheduler/agents"
	"pinfold.dev/pinfold/test/must"
)

// decided returns when an agent decides: each time later, and ahead of the scheduler's clock.
func decided() time.Time { return time.Unix(4e9+decisions.Add(1), 0).UTC() }

var decisions atomic.Int64

// allocatedOn returns what the agent of a node has allocated to the container of each pod.
func allocatedOn(node string, f map[string]string) api.Allocations {
	if _, old := f["old"]; old {
		return nil
	}
	all, at := api.Allocations{}, decided()
	for _, allocation := range strings.FieldsFunc(f["gave"], func(r rune) bool { return r == '/' }) {
		pod, cpus, _ := strings.Cut(allocation, ":")
		all[types.UID(pod)] = api.Allocation{Version: 1, Node: node, Policy: placement.Static, Time: at,
			Containers: []api.ContainerAllocation{{Name: "app", CPUs: cpuset.MustParse(cpus), NUMANodes: []topology.NUMAID{0}}}}
	}
	return all
}

// agents lets the agents of all nodes allocate what the scheduler has predicted, and publish that. It
// reports whether there was something to publish.
func (s *scenario) agents() (published bool) {
	for name, info := range s.scheduler.Cache.Dump().Nodes {
		if info.Node() == nil {
			continue
		}
		report := s.plugin.shared.reports.Of(info.Node())
		if !report.Usable() || report.Allocations() == nil {
			continue
		}
		all := allocate(s.plugin, info, report)
		if maps.EqualFunc(all, report.Allocations(), func(a, b api.Allocation) bool { return a.Time.Equal(b.Time) }) {
			continue
		}
		obj, err := s.topologies.Get(context.Background(), name, metav1.GetOptions{})
		s.must(err)
		s.publish(withAllocations(s.t, obj, all))
		published = true
	}
	return published
}

// allocate returns what the agent of a node has allocated when it follows the prediction: pods keep what
// they have.
func allocate(p *Plugin, node fwk.NodeInfo, report *agents.Report) api.Allocations {
	all := api.Allocations{}
	for uid, e := range p.derive(node, report, stateUse{}).pods {
		if a, ok := report.Allocations()[uid]; ok && a.Concerns(e.pod) && !api.HasEnded(e.pod) {
			all[uid] = a
		} else if len(e.claim.Containers) > 0 {
			a := api.NewAllocation(node.Node().Name, report.Machine(), ledger.Decision{Containers: e.claim.Containers})
			a.Time = decided()
			all[uid] = a
		}
	}
	return all
}

// withAllocations returns an object with other allocations.
func withAllocations(t testing.TB, obj *nodetopology.NodeTopology, all api.Allocations) *nodetopology.NodeTopology {
	t.Helper()
	machine, state, err := nodetopology.ToMachine(obj)
	must.Do(t, err)
	state.Allocations = all
	now := must.Get(nodetopology.FromMachine(obj.Name, machine, state))(t)
	now.OwnerReferences = obj.OwnerReferences
	return now
}
