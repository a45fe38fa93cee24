package nodetopology

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/test/golden"
)

// throughJSON returns the object after encoding and decoding, as by the API server.
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
					t.Error("the decoded machine is encoded differently")
				}
			}
		})
	}
}

func cpusEqual(a, b cpuset.Set) bool { return a == b }

// etcd rejects objects of more than 1.5 MiB, and every scheduler keeps all of them in memory.
func TestSize(t *testing.T) {
	const most = 192 << 10
	all := machines(t)
	for _, name := range machineNames(all) {
		text, err := json.Marshal(encode(t, all[name], someState))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%-12s %4d CPUs: %5d bytes", name, len(all[name].CPUs), len(text))
		if len(text) > most {
			t.Errorf("%s: %d bytes, want at most %d", name, len(text), most)
		}
	}
}

// The objects of two machines as printed by kubectl get -o yaml.
func TestGoldenObjects(t *testing.T) {
	for name, m := range map[string]*topology.Machine{"intel104": topology.Intel104().MustBuild(), "odd": oddMachine()} {
		got, err := yaml.Marshal(encode(t, m, someState))
		if err != nil {
			t.Fatal(err)
		}
		golden.Compare(t, "testdata/"+name+".yaml", string(got))
	}
}

func TestInvalidMachineIsNotWritten(t *testing.T) {
	m := topology.Intel104().MustBuild()
	m.CPUs[7].LLC = 1
	if _, err := FromMachine("n1", m, State{}); !errors.Is(err, topology.ErrInconsistent) {
		t.Fatalf("got %v, want ErrInconsistent", err)
	}
}

func TestTextThatIsNotUTF8IsSanitised(t *testing.T) {
	obj := encode(t, topology.Shape{}.MustBuild(), State{AgentHealth: "read \xff: failed"})
	_, state, err := ToMachine(throughJSON(t, obj))
	if err != nil || state.AgentHealth != "read \uFFFD: failed" {
		t.Fatalf("got %+v, %v", state, err)
	}
}
