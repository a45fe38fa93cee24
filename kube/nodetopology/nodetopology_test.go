package nodetopology

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// throughJSON is what an object looks like after a visit to the API server.
func throughJSON(t testing.TB, obj *v1alpha2.NodeResourceTopology) *v1alpha2.NodeResourceTopology {
	t.Helper()
	text, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	var out v1alpha2.NodeResourceTopology
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return &out
}

func encode(t testing.TB, m *topology.Machine, state State) *v1alpha2.NodeResourceTopology {
	t.Helper()
	obj, err := FromMachine("n1", m, state)
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

var someState = State{ReservedCPUs: cpuset.Of(0, 3), KubeletPolicy: KubeletPolicyNone, AgentHealth: AgentHealthy}

func TestRoundTrip(t *testing.T) {
	all := machines(t)
	for _, name := range machineNames(all) {
		t.Run(name, func(t *testing.T) {
			for _, state := range []State{{}, someState} {
				obj := encode(t, all[name], state)
				m, got, err := ToMachine(throughJSON(t, obj))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(all[name], m, cmpopts.EquateEmpty(), cmp.Comparer(cpusEqual)); diff != "" {
					t.Errorf("machine (-want +got):\n%s", diff)
				}
				if got != state {
					t.Errorf("state: got %+v, want %+v", got, state)
				}
				if !Equal(obj, encode(t, m, got)) {
					t.Error("the machine that was read is written differently")
				}
			}
		})
	}
}

func cpusEqual(a, b cpuset.Set) bool { return a == b }
