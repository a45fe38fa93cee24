package nodetopology

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/core/topology/topologytest"
	"pinfold.dev/pinfold/test/must"
)

func drawState(t *rapid.T, m *topology.Machine) State {
	return State{
		Writer:        rapid.SampledFrom([]string{"", "pinfold-agent v1"}).Draw(t, "writer"),
		ReservedCPUs:  topologytest.Subset(t, m.Online().Union(m.Offline), "reserved"),
		KubeletPolicy: rapid.SampledFrom([]string{"", "none", "static"}).Draw(t, "kubeletPolicy"),
		AgentHealth:   rapid.String().Draw(t, "agentHealth"),
		AgentLease:    rapid.SampledFrom([]string{"", "pinfold-system/n1"}).Draw(t, "agentLease"),
	}
}

func TestRandomMachinesRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := topologytest.Random(rt)
		state := drawState(rt, m)
		obj := encode(t, m, state)
		got, gotState, err := ToMachine(throughJSON(t, obj))
		if err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(m, got, cmpopts.EquateEmpty(), cmp.Comparer(cpusEqual)); diff != "" {
			rt.Fatalf("machine (-want +got):\n%s", diff)
		}
		if !reflect.DeepEqual(gotState, state) {
			rt.Fatalf("state: got %+v, want %+v", gotState, state)
		}
		if !Equal(obj, encode(t, m, state)) {
			rt.Fatal("encoding twice gives different objects")
		}
	})
}

// After any loss or change, the reader either returns an error or the original machine and state.
func TestCorruptionIsFound(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := topologytest.Random(rt)
		state := drawState(rt, m)
		obj := encode(t, m, state)
		for range rapid.IntRange(1, 3).Draw(rt, "corruptions") {
			corrupt(rt, obj)
		}
		got, gotState, err := ToMachine(obj)
		switch {
		case err != nil && strings.HasPrefix(err.Error(), "NodeTopology "):
			return
		case err != nil:
			rt.Fatalf("the error does not name the object: %v", err)
		case !cmp.Equal(m, got, cmpopts.EquateEmpty(), cmp.Comparer(cpusEqual)) || !reflect.DeepEqual(gotState, state):
			rt.Fatalf("decoded another machine or state:\n%s", cmp.Diff(m, got, cmpopts.EquateEmpty(), cmp.Comparer(cpusEqual)))
		}
	})
}

// corrupt changes the text of a field.
func corrupt(t *rapid.T, obj *NodeTopology) {
	field := reflect.ValueOf(&obj.Machine).Elem()
	if rapid.Bool().Draw(t, "status") {
		field = reflect.ValueOf(&obj.Status).Elem()
	}
	var texts []reflect.Value
	for i := range field.NumField() {
		if field.Field(i).Kind() == reflect.String {
			texts = append(texts, field.Field(i))
		}
	}
	field = rapid.SampledFrom(texts).Draw(t, "field")
	field.SetString(corruptText(t, field.String()))
}

func corruptText(t *rapid.T, text string) string {
	from := rapid.IntRange(0, len(text)).Draw(t, "from")
	to := rapid.IntRange(from, min(len(text), from+3)).Draw(t, "to")
	if rapid.Bool().Draw(t, "cut") {
		return text[:from]
	}
	return text[:from] + rapid.SampledFrom([]string{"", "0", "1", "7", "-", ",", ":", " ", "x", "0:0"}).Draw(t, "insert") + text[to:]
}

func FuzzToMachine(f *testing.F) {
	all := machines(f)
	for _, name := range []string{"odd", "hybrid", "adjacent"} {
		text := must.Get(json.Marshal(encode(f, all[name], someState)))(f)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var obj NodeTopology
		if json.Unmarshal(text, &obj) != nil {
			return
		}
		obj.Digest = obj.digest() // what it protects against is not the decoder's matter
		m, state, err := ToMachine(&obj)
		if err != nil {
			return
		}
		again, err := FromMachine(obj.Name, m, state)
		if err != nil {
			t.Fatalf("decoded a machine that cannot be encoded: %v", err)
		}
		if _, _, err := ToMachine(again); err != nil {
			t.Fatalf("the encoded machine cannot be decoded again: %v", err)
		}
	})
}
