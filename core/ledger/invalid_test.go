package ledger

import (
	"errors"
	"math"
	"strings"
	"testing"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
)

func eightCPUs() *placement.Index {
	return placement.NewIndex(topology.Shape{Packages: 2, CoresPerLLC: 4}.MustBuild())
}

func TestDecideInvalid(t *testing.T) {
	one := []ContainerAsk{{Name: "main", CPUs: 1}}
	for _, tt := range []struct {
		ask  Ask
		want string
	}{
		{Ask{Containers: []ContainerAsk{{Name: "main"}}}, `container "main" wants 0 CPUs`},
		{Ask{Containers: []ContainerAsk{{Name: "main", CPUs: -1}}}, `container "main" wants -1 CPUs`},
		{Ask{Containers: []ContainerAsk{{Name: "main", CPUs: math.MaxInt}}}, `it must be 1 to 2147483647`},
		{Ask{Policy: "dynamic", Containers: one}, `policy "dynamic" is neither "static" nor "static-burst"`},
		{Ask{FullCores: "maybe", Containers: one}, `full cores "maybe" is neither "preferred" nor "required"`},
	} {
		_, err := New(eightCPUs(), Config{}).Decide(tt.ask)
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: got %v, want an ErrInvalid with %q", tt.ask, err, tt.want)
		}
	}
}

// TestAbsurdAmounts: amounts far above any machine are refused or reported, and their sums do not
// overflow.
func TestAbsurdAmounts(t *testing.T) {
	huge := MilliCPU(math.MaxInt64)
	b := New(eightCPUs(), Config{Reserved: -5, ReservedCPUs: cpuset.Of(1000), MinShared: -1})
	for _, ask := range []Ask{
		{SharedRequest: huge},
		{Policy: placement.StaticBurst, Containers: []ContainerAsk{{Name: "main", CPUs: 1, Request: huge}}, SharedRequest: huge},
		{Containers: []ContainerAsk{{Name: "a", CPUs: math.MaxInt32}, {Name: "b", CPUs: math.MaxInt32}}},
	} {
		if d, err := b.Decide(ask); err == nil {
			t.Errorf("%+v: got %+v", ask, d)
		}
	}
	var exclusive *ExclusiveError
	if _, err := b.Decide(Ask{Containers: []ContainerAsk{{Name: "main", CPUs: 9}}}); !errors.As(err, &exclusive) || exclusive.Have != 8 {
		t.Errorf("got %v, want all 8 CPUs to be had", err)
	}
	b.Add(Claim{ID: "a", SharedRequest: huge, Containers: []ContainerClaim{{Name: "main", Policy: placement.StaticBurst,
		Limit: math.MaxInt32, Request: huge, NUMANodes: []topology.NUMAID{0, 0}}}})
	b.Add(Claim{ID: "b", SharedRequest: huge})
	b.Add(Claim{ID: "c", SharedRequest: -huge})
	rules := map[Rule]bool{}
	for _, o := range b.Overflow() {
		rules[o.Rule] = true
	}
	if b.SharedRequests() != 3*MaxRequest || !rules[RuleRequests] || !rules[RuleConfined] {
		t.Errorf("%s requested, overflow %v", b.SharedRequests(), b.Overflow())
	}
	if _, err := b.Decide(Ask{}); err != nil {
		t.Errorf("a pod without requests: %v", err)
	}
	for _, id := range []PodID{"a", "b", "c"} {
		b.Add(Claim{ID: id})
	}
	if d := diff(New(eightCPUs(), Config{Reserved: -5, ReservedCPUs: cpuset.Of(1000), MinShared: -1},
		Claim{ID: "a"}, Claim{ID: "b"}, Claim{ID: "c"}), b); d != "" {
		t.Errorf("books of claims of nothing differ (-new +replaced):\n%s", d)
	}
}
