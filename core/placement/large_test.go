package placement

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// ring is a machine of many NUMA nodes in a ring, the distance being 10 per hop.
func ring(nodes, cores int) *topology.Machine {
	m := topology.Shape{Packages: nodes, CoresPerLLC: cores}.MustBuild()
	for i := range m.NUMANodes {
		for j := range m.NUMANodes {
			hops := min((i-j+nodes)%nodes, (j-i+nodes)%nodes)
			m.NUMANodes[i].Distances[j] = 10 + 10*hops
		}
	}
	return m
}

func TestManyNodes(t *testing.T) {
	ix := NewIndex(ring(20, 4))
	for _, tt := range []struct {
		name  string
		free  cpuset.Set
		cpus  int
		nodes int
		dist  int
		exact bool
	}{
		{"one node", ix.balanced, 4, 1, 0, true},
		{"neighbours, all pairs tried", ix.balanced, 8, 2, 2 * 20, true},
		{"only far nodes have room", cpuset.MustParse("0-3,40-43"), 8, 2, 2 * 110, true},
		{"ten of twenty nodes in a row", ix.balanced, 40, 10, ringDistance(10), true},
	} {
		got, err := ix.Place(tt.free, Request{CPUs: tt.cpus})
		if err != nil || got.Exact != tt.exact || got.Quality.NUMANodes != tt.nodes || got.Quality.Distance != tt.dist {
			t.Errorf("%s: got %+v, %v", tt.name, got, err)
		}
	}
}

// ringDistance is the sum of distances, over ordered pairs, of k nodes in a row.
func ringDistance(k int) int {
	sum := 0
	for i := range k {
		for j := range k {
			if i != j {
				sum += 10 + 10*max(i-j, j-i)
			}
		}
	}
	return sum
}

func TestInvalidRequests(t *testing.T) {
	ix := NewIndex(topology.Intel104().MustBuild())
	for _, tt := range []struct {
		req  Request
		want string
	}{
		{Request{}, "invalid placement request: the number of CPUs must be at least 1, not 0"},
		{Request{CPUs: -3}, "invalid placement request: the number of CPUs must be at least 1, not -3"},
		{Request{CPUs: 1, Policy: "dynamic"}, `invalid placement request: unknown policy "dynamic", want "static" or "static-burst"`},
		{Request{CPUs: 1, FullCores: "yes"}, `invalid placement request: full cores must be "preferred" or "required", not "yes"`},
		{Request{CPUs: 1, Limits: []Limit{{CPUs: -1}}}, "invalid placement request: a limit of -1 CPUs is negative"},
	} {
		if _, err := ix.Place(ix.balanced, tt.req); !errors.Is(err, ErrInvalid) || err.Error() != tt.want {
			t.Errorf("%+v: got %q, want %q", tt.req, err, tt.want)
		}
	}
}

func TestInsufficient(t *testing.T) {
	ix := NewIndex(topology.Intel104().MustBuild())
	node := []topology.NUMAID{0}
	for _, tt := range []struct {
		name, free string
		req        Request
		want       string
	}{
		{"too many", "0-3", Request{CPUs: 5}, "5 CPUs wanted, but at most 4 CPUs are free for it"},
		{"larger than the machine", "0-103", Request{CPUs: 300}, "300 CPUs wanted, but at most 104 CPUs are free for it"},
		{"whole cores", "0-3,52", Request{CPUs: 4, FullCores: FullCoresRequired}, "4 CPUs wanted, but at most 2 CPUs in whole cores are free for it"},
		{"odd number in whole cores", "0-103", Request{CPUs: 7, FullCores: FullCoresRequired},
			"7 CPUs wanted, but whole cores here make 6 or 8 CPUs"},
		{"limit", "0-103", Request{CPUs: 8, Limits: []Limit{{CPUs: 5}}}, "8 CPUs wanted, but at most 5 CPUs are free for it"},
		{"limit on one node", "0-25", Request{CPUs: 8, Limits: []Limit{{NUMANodes: node, CPUs: 2}}}, "8 CPUs wanted, but at most 2 CPUs are free for it"},
		{"static-burst", "0-3", Request{CPUs: 5, Policy: StaticBurst}, "5 CPUs wanted, but at most 4 shared CPUs are free for it"},
	} {
		_, err := ix.Place(cpuset.MustParse(tt.free), tt.req)
		var insufficient *InsufficientError
		if !errors.As(err, &insufficient) || err.Error() != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, err, tt.want)
		}
	}
}

// What all designs of core together cannot give is not asked of each of 255 sets of them.
func TestManyDesignsAreRefusedAtOnce(t *testing.T) {
	m := topology.Shape{NUMAPerPackage: 8, CoresPerLLC: 128}.MustBuild()
	for i := range m.CPUs {
		m.CPUs[i].Kind = topology.Kind(fmt.Sprint("kind", i%64))
	}
	m.Kinds = topology.KindsOf(m.CPUs)
	_, err := NewIndex(m).Place(m.Online(), Request{CPUs: 88, Limits: slices.Repeat([]Limit{{CPUs: 87}}, 60)})
	var insufficient *InsufficientError
	if !errors.As(err, &insufficient) || insufficient.GaveUp || insufficient.Have != 87 {
		t.Errorf("got %v", err)
	}
}

// Many decisions in a row share the budget of some, and each has what a plain one needs.
func TestShares(t *testing.T) {
	for n := range 5000 {
		if one := ShareOf(n).steps; one < leastSteps || n > 0 && n*one > max(fullBudgets*decisionSteps, n*leastSteps) || n <= fullBudgets && one < decisionSteps {
			t.Errorf("each of %d decisions has %d steps", n, one)
		}
	}
}
