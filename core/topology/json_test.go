package topology_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/core/topology/topologytest"
	"pinfold.dev/pinfold/test/must"
)

func roundTrip(m *topology.Machine) (*topology.Machine, string, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return nil, "", err
	}
	again, err := topology.Decode(strings.NewReader(string(text)))
	return again, string(text), err
}

func TestJSONRoundTrip(t *testing.T) {
	check := func(t *rapid.T, m *topology.Machine) {
		again, text, err := roundTrip(m)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if diff := topologytest.Diff(m, again); diff != "" {
			t.Fatalf("%s\n-want +got:\n%s", text, diff)
		}
	}
	t.Run("irregular", rapid.MakeCheck(func(t *rapid.T) { check(t, topologytest.Random(t)) }))
	t.Run("regular", rapid.MakeCheck(func(t *rapid.T) { check(t, topologytest.RandomShape(t, 256).MustBuild()) }))
}

// TestOrderOfListsDoesNotMatter shuffles CPUs and nodes, and distances with them.
func TestOrderOfListsDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := topologytest.Random(t)
		text := must.Get(json.Marshal(m))(t)
		var loose struct {
			CPUs      []json.RawMessage `json:"cpus"`
			NUMANodes []map[string]any  `json:"numaNodes"`
			Kinds     json.RawMessage   `json:"kinds,omitempty"`
			Offline   json.RawMessage   `json:"offline,omitempty"`
			Isolated  json.RawMessage   `json:"isolated,omitempty"`
		}
		must.Do(t, json.Unmarshal(text, &loose))
		loose.CPUs = rapid.Permutation(loose.CPUs).Draw(t, "cpus")
		order := make([]int, len(loose.NUMANodes))
		for i := range order {
			order[i] = i
		}
		if len(order) > 0 {
			order = rapid.Permutation(order).Draw(t, "nodes")
		}
		nodes := make([]map[string]any, len(order))
		for to, from := range order {
			nodes[to] = loose.NUMANodes[from]
			row := nodes[to]["distances"].([]any)
			shuffled := make([]any, len(row))
			for i, j := range order {
				shuffled[i] = row[j]
			}
			nodes[to]["distances"] = shuffled
		}
		loose.NUMANodes = nodes
		text = must.Get(json.Marshal(loose))(t)
		again, err := topology.Decode(strings.NewReader(string(text)))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if diff := topologytest.Diff(m, again); diff != "" {
			t.Fatalf("%s\n-want +got:\n%s", text, diff)
		}
	})
}

func TestDecodeDefaults(t *testing.T) {
	m := must.Get(topology.Decode(strings.NewReader(`{"cpus":[
		{"id":3,"core":1,"llc":0,"numa":4,"die":0,"package":0,"kind":"efficiency"},
		{"id":2,"core":0,"llc":0,"numa":-1,"die":0,"package":0,"kind":"fast"},
		{"id":1,"core":2,"llc":0,"numa":0,"die":0,"package":0,"kind":"performance"}]}`)))(t)
	want := &topology.Machine{
		CPUs: []topology.CPU{{ID: 1, Core: 2, Kind: "performance"}, {ID: 2, NUMA: topology.NoNUMA, Kind: "fast"},
			{ID: 3, Core: 1, NUMA: 4, Kind: "efficiency"}},
		NUMANodes: []topology.NUMANode{
			{ID: 0, CPUs: cpuset.Of(1), LocalCPUs: cpuset.Of(1), Distances: []int{10, 20}},
			{ID: 4, CPUs: cpuset.Of(3), LocalCPUs: cpuset.Of(3), Distances: []int{20, 10}},
		},
		Kinds: []topology.Kind{"performance", "fast", "efficiency"},
	}
	if diff := topologytest.Diff(want, m); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestMarshalByValue(t *testing.T) {
	byPointer := must.Get(json.Marshal(small()))(t)
	byValue, err := json.Marshal(*small())
	if err != nil || string(byValue) != string(byPointer) {
		t.Errorf("by value %s, %v\nby pointer %s", byValue, err, byPointer)
	}
}

func TestKindsOf(t *testing.T) {
	var cpus []topology.CPU
	for _, k := range []topology.Kind{topology.KindLowPower, "zeta", topology.KindEfficiency, "alpha", topology.KindPerformance, "alpha", "prime", "LITTLE", "P"} {
		cpus = append(cpus, topology.CPU{Kind: k})
	}
	got := topology.KindsOf(cpus)
	want := []topology.Kind{"prime", "P", topology.KindPerformance, "alpha", "zeta", "LITTLE", topology.KindEfficiency, topology.KindLowPower}
	if len(got) != len(want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
}

// TestDecodeErrors reads testdata/bad. Each file has a machine, a line of dashes, and the texts
// that the error must contain.
func TestDecodeErrors(t *testing.T) {
	names, err := filepath.Glob("testdata/bad/*.txt")
	if err != nil || len(names) == 0 {
		t.Fatalf("no files in testdata/bad (%v)", err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			text := must.Get(os.ReadFile(name))(t)
			machine, want, ok := strings.Cut(string(text), "\n---\n")
			if !ok {
				t.Fatal("no line of dashes")
			}
			m, err := topology.Decode(strings.NewReader(machine))
			if err == nil {
				t.Fatalf("no error, but machine %+v", m)
			}
			for line := range strings.Lines(want) {
				if !strings.Contains(err.Error(), strings.TrimSpace(line)) {
					t.Errorf("error %q does not have %q", err, strings.TrimSpace(line))
				}
			}
		})
	}
}

func TestUnmarshalLeavesMachineOnError(t *testing.T) {
	m := small()
	err := json.Unmarshal([]byte(`{"cpus":[{"id":0},{"id":0}]}`), m)
	if !errors.Is(err, topology.ErrInconsistent) {
		t.Errorf("error %v, want ErrInconsistent", err)
	}
	if diff := topologytest.Diff(small(), m); diff != "" {
		t.Errorf("the machine was changed:\n%s", diff)
	}
}

func FuzzDecode(f *testing.F) {
	for _, m := range []*topology.Machine{small(), topology.Shape{}.MustBuild(), topology.Shape{Packages: 2, NUMAPerPackage: 2, ThreadsPerCore: 2}.MustBuild()} {
		text := must.Get(json.Marshal(m))(f)
		f.Add(text)
	}
	f.Add([]byte(`{"cpus":[{"id":1,"numa":-1}],"numaNodes":[{"id":3,"localCPUs":"1","distances":[10]}],"isolated":"1","nohzFull":"1","offline":"2-3","kinds":[""]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := topology.Decode(strings.NewReader(string(text)))
		if err != nil {
			return
		}
		if err := m.Validate(); err != nil {
			t.Fatalf("decoded, but not valid: %v", err)
		}
		again, written, err := roundTrip(m)
		if err != nil {
			t.Fatalf("%s: %v", written, err)
		}
		if diff := topologytest.Diff(m, again); diff != "" {
			t.Errorf("%s\n-want +got:\n%s", written, diff)
		}
	})
}
