package nodetopology

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// throughJSON returns the object after encoding and decoding, as by the API server.
func throughJSON(t testing.TB, obj *NodeTopology) *NodeTopology {
	t.Helper()
	text, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	var out NodeTopology
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return &out
}

func encode(t testing.TB, m *topology.Machine, state State) *NodeTopology {
	t.Helper()
	return must.Get(FromMachine("n1", m, state))(t)
}

var someState = State{Writer: "pinfold-agent test", ReservedCPUs: cpuset.Of(0, 3), KubeletPolicy: KubeletPolicyNone, AgentHealth: AgentHealthy,
	Findings: []Finding{{Severity: "Warning", Reason: "CPUsNotGiven", Message: "pod a/b: it gets no CPUs of its own: 4 CPUs are free", Pod: "uid-b"},
		{Severity: "Note", Reason: "NoKernelBurst", Message: "the kernel has no burst"}}}

func cpusEqual(a, b cpuset.Set) bool { return a == b }

// What an agent has allocated comes back from the text.
func TestAllocations(t *testing.T) {
	state := someState
	state.Allocations = api.Allocations{}
	for _, uid := range []types.UID{"b", "a"} {
		state.Allocations[uid] = api.Allocation{Version: 1, Node: "n", Policy: placement.Static, Time: time.Unix(1_800_000_000, 7).UTC(),
			Containers: []api.ContainerAllocation{{Name: "app", CPUs: cpuset.Of(1, 2), NUMANodes: []topology.NUMAID{0}}}}
	}
	obj := encode(t, topology.Shape{CoresPerLLC: 4}.MustBuild(), state)
	if got := obj.Status.Allocations[0].UID; got != "a" {
		t.Errorf("the first allocation is that of %s", got)
	}
	_, got, err := ToMachine(obj)
	if d := cmp.Diff(state, got, cmp.Comparer(func(x, y cpuset.Set) bool { return x == y })); err != nil || d != "" {
		t.Errorf("%v (-written +read):\n%s", err, d)
	}
	obj.Status.Allocations[0].Allocation = "{}"
	obj.Digest = obj.digest()
	if _, _, err := ToMachine(obj); err == nil || !strings.Contains(err.Error(), "allocations[0]: version 0") {
		t.Errorf("an allocation without content: %v", err)
	}
	one := state.Allocations["a"].Encode()
	for name, all := range map[string][]string{"a long one": {strings.Repeat(" ", api.MaxAllocation) + one}, "many pods": slices.Repeat([]string{one}, maxPods+1),
		"much text": slices.Repeat([]string{strings.Repeat(" ", api.MaxAllocation-len(one)) + one}, maxAllocations/api.MaxAllocation+1)} {
		obj.Status.Allocations = nil
		for i, text := range all {
			obj.Status.Allocations = append(obj.Status.Allocations, PodAllocation{types.UID(fmt.Sprint(i)), text})
		}
		obj.Digest = obj.digest()
		if _, _, err := ToMachine(obj); err == nil || !strings.Contains(err.Error(), "allocations: they have more than") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// etcd rejects objects of more than 1.5 MiB, and every scheduler keeps all of them in memory.
func TestSize(t *testing.T) {
	const most = 24 << 10
	all := machines(t)
	for _, name := range machineNames(all) {
		text := must.Get(json.Marshal(encode(t, all[name], someState)))(t)
		t.Logf("%-12s %4d CPUs: %5d bytes", name, len(all[name].CPUs), len(text))
		if len(text) > most {
			t.Errorf("%s: %d bytes, want at most %d", name, len(text), most)
		}
	}
}

// The objects of two machines as printed by kubectl get -o yaml.
func TestGoldenObjects(t *testing.T) {
	for name, m := range map[string]*topology.Machine{"intel104": topology.Intel104().MustBuild(), "odd": oddMachine()} {
		got := must.Get(yaml.Marshal(encode(t, m, someState)))(t)
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

func TestEqual(t *testing.T) {
	m := topology.Intel104().MustBuild()
	a := encode(t, m, State{})
	b := throughJSON(t, a)
	b.ResourceVersion, b.UID, b.Labels = "7", "u", map[string]string{"extra": "x"}
	if !Equal(a, b) {
		t.Error("fields set by the API server make objects differ")
	}
	if Equal(a, encode(t, m, State{AgentHealth: "ill"})) {
		t.Error("a change of state is not detected")
	}
	OwnedByNode(a, "first")
	again := throughJSON(t, a)
	if !Equal(a, again) || NodeUID(again) != "first" {
		t.Errorf("the owner is lost: %q", NodeUID(again))
	}
	if OwnedByNode(again, "second"); Equal(a, again) {
		t.Error("another node of the same name is not detected")
	}
	m.CPUs[0].ID, m.CPUs[0].Core = 0, 60
	if Equal(a, encode(t, m, State{})) {
		t.Error("a change of the machine is not detected")
	}
}

func TestEqualMachinesShareIndex(t *testing.T) {
	d := NewDecoder()
	index := func(shape topology.Shape) *placement.Index {
		t.Helper()
		decoded := d.Decode(encode(t, shape.MustBuild(), someState))
		if decoded.Err != nil {
			t.Fatal(decoded.Err)
		}
		return decoded.Index
	}
	amd := index(topology.AMD256())
	larger := topology.AMD256()
	larger.MemoryBytesNUMA *= 2
	if index(larger) != amd {
		t.Error("machines that differ in memory have two indexes")
	}
	other := topology.AMD256() // the same number of CPUs, numbered differently
	other.Numbering = topology.SiblingsAdjacent
	adjacent := index(other)
	if adjacent == amd || !adjacent.Machine().SameCPUs(other.MustBuild()) {
		t.Error("machines that number their CPUs differently share an index")
	}
	if n := len(d.known); n != 2 {
		t.Fatalf("%d machines are known, want 2", n)
	}
	runtime.KeepAlive(adjacent)
	adjacent = nil
	runtime.GC()
	index(topology.Intel104())
	if index(topology.AMD256()) != amd {
		t.Error("a used index was collected")
	}
	if n := len(d.known); n != 2 {
		t.Errorf("%d machines are known, want the used one and the new one", n)
	}
	runtime.KeepAlive(amd)
}
