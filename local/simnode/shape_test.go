package simnode_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/local/simnode"
)

func TestParseShape(t *testing.T) {
	for _, test := range []struct {
		text string
		want topology.Shape
		name string
		cpus int
	}{
		{"intel-104", topology.Intel104(), "intel-104", 104},
		{"amd-256", topology.AMD256(), "amd-256", 256},
		{
			"packages:2,numa:4,llcs:4,cores:4,threads:2",
			topology.Shape{Packages: 2, NUMAPerPackage: 4, LLCsPerNUMA: 4, CoresPerLLC: 4, ThreadsPerCore: 2},
			"p2n4l4c4t2", 256,
		},
		{
			"threads:4,cores:3,siblings:adjacent,memory:2Gi",
			topology.Shape{
				Packages: 1, NUMAPerPackage: 1, LLCsPerNUMA: 1, CoresPerLLC: 3, ThreadsPerCore: 4,
				Numbering: topology.SiblingsAdjacent, MemoryBytesNUMA: 2 << 30,
			},
			"p1n1l1c3t4", 12,
		},
	} {
		shape, name, err := simnode.ParseShape(test.text)
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		if diff := cmp.Diff(test.want, shape); diff != "" || name != test.name {
			t.Errorf("%s: name %q, want %q\n%s", test.text, name, test.name, diff)
		}
		if cpus := len(shape.MustBuild().CPUs); cpus != test.cpus {
			t.Errorf("%s: %d CPUs, want %d", test.text, cpus, test.cpus)
		}
	}
}

func TestParseShapeRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                     `"" is neither a name (amd-256, intel-104)`,
		"intel-105":            `"intel-105" is neither a name`,
		"cores":                `"cores" is neither`,
		"cores:0":              `cores is "0", not a number from 1`,
		"cores:-3":             "not a number from 1",
		"cores:four":           "not a number from 1",
		"cores:4,":             `"" is neither`,
		"cores:4,cores:5":      "cores is given twice",
		"sockets:2":            `unknown key "sockets"; want packages:2`,
		"siblings:close":       "neither apart nor adjacent",
		"memory:much":          `memory "much" is not an amount`,
		"memory:-1Gi":          "is not an amount",
		"memory:64":            `memory "64" is not an amount such as 64Gi`,
		"packages:64,cores:64": "CPUs",
		"cores:9223372036854775807,threads:9223372036854775807": "build machine",
	} {
		_, _, err := simnode.ParseShape(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}

func FuzzParseShape(f *testing.F) {
	f.Add("amd-256")
	f.Add("packages:2,numa:4,llcs:4,cores:4,threads:2,siblings:adjacent,memory:1Gi")
	f.Fuzz(func(t *testing.T, text string) {
		shape, name, err := simnode.ParseShape(text)
		if err != nil {
			return
		}
		if err := shape.MustBuild().Validate(); err != nil || name == "" {
			t.Errorf("%q: name %q, machine %v", text, name, err)
		}
	})
}

func TestParseCount(t *testing.T) {
	for _, test := range []struct {
		text, what string
		count      int
		ok         bool
	}{
		{"host", "host", 1, true},
		{"host=3", "host", 3, true},
		{"a=b=0", "a=b", 0, true},
		{"host=", "", 0, false},
		{"host=-1", "", 0, false},
		{"host=20001", "", 0, false},
		{"host=two", "", 0, false},
	} {
		what, count, err := simnode.ParseCount(test.text)
		if (err == nil) != test.ok || what != test.what || count != test.count {
			t.Errorf("%q: %q, %d, %v", test.text, what, count, err)
		}
	}
}
