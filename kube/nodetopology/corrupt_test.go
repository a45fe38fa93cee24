package nodetopology

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/core/topology/topologytest"
)

func drawState(t *rapid.T, m *topology.Machine) State {
	return State{
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
		if gotState != state {
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
		case err != nil && strings.HasPrefix(err.Error(), "NodeResourceTopology "):
			return
		case err != nil:
			rt.Fatalf("the error does not name the object: %v", err)
		case !cmp.Equal(m, got, cmpopts.EquateEmpty(), cmp.Comparer(cpusEqual)) || gotState != state:
			rt.Fatalf("decoded another machine or state:\n%s", cmp.Diff(m, got, cmpopts.EquateEmpty(), cmp.Comparer(cpusEqual)))
		}
	})
}

// corrupt makes one change to the object.
func corrupt(t *rapid.T, obj *v1alpha2.NodeResourceTopology) {
	if len(obj.Zones) == 0 || rapid.Bool().Draw(t, "object") {
		corruptList(t, &obj.Attributes, func(a *v1alpha2.AttributeInfo) { a.Value = corruptText(t, a.Value) })
		return
	}
	corruptList(t, &obj.Zones, func(z *v1alpha2.Zone) {
		switch rapid.IntRange(0, 4).Draw(t, "what") {
		case 0:
			z.Name = corruptText(t, z.Name)
		case 1:
			z.Parent = corruptText(t, z.Parent)
		case 2:
			corruptList(t, &z.Costs, func(c *v1alpha2.CostInfo) { c.Value += rapid.Int64().Draw(t, "cost") })
		default:
			corruptList(t, &z.Attributes, func(a *v1alpha2.AttributeInfo) { a.Value = corruptText(t, a.Value) })
		}
	})
}

// corruptList removes, duplicates, moves or changes one element.
func corruptList[L ~[]E, E any](t *rapid.T, list *L, change func(*E)) {
	if len(*list) == 0 {
		return
	}
	i := rapid.IntRange(0, len(*list)-1).Draw(t, "element")
	switch rapid.IntRange(0, 5).Draw(t, "how") {
	case 0:
		*list = slices.Delete(slices.Clone(*list), i, i+1)
	case 1:
		*list = append(slices.Clone(*list), (*list)[i])
	case 2:
		slices.Reverse((*list)[i:])
	default:
		change(&(*list)[i])
	}
}

// corruptText truncates a text or replaces a part of it.
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
		text, err := json.Marshal(encode(f, all[name], someState))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var obj v1alpha2.NodeResourceTopology
		if json.Unmarshal(text, &obj) != nil {
			return
		}
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
