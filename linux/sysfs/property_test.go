package sysfs

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/core/topology/topologytest"
)

// readable draws a machine and converts it to the form in which Read returns it: dense ids in the
// order of the lowest CPU, dies within packages, kinds by rank.
func readable(t *rapid.T) *topology.Machine {
	m := topologytest.Random(t)
	cores, llcs, dies := map[topology.CoreID]int{}, map[topology.LLCID]int{}, map[[2]int]int{}
	kinds := map[topology.Kind]topology.Kind{}
	for i, k := range m.Kinds {
		kinds[k] = kindName(i, len(m.Kinds))
		if len(m.Kinds) == 1 {
			kinds[k] = ""
		}
		m.Kinds[i] = kinds[k]
	}
	for i := range m.CPUs {
		c := &m.CPUs[i]
		c.Core = topology.CoreID(dense(cores, c.Core))
		c.LLC = topology.LLCID(dense(llcs, c.LLC))
		c.Die = topology.DieID(dense(dies, [2]int{int(c.Package), int(c.Die)}))
		c.Kind = kinds[c.Kind]
	}
	if len(m.NUMANodes) == 0 {
		for i := range m.CPUs {
			m.CPUs[i].NUMA = 0
		}
		m.NUMANodes = []topology.NUMANode{{CPUs: m.Online(), LocalCPUs: m.Online(), Distances: []int{10}}}
	}
	for i := range m.NUMANodes {
		if n := &m.NUMANodes[i]; n.LocalCPUs.IsEmpty() {
			n.LocalCPUs = nearestCPUs(*n, m.NUMANodes)
		}
	}
	if err := m.Validate(); err != nil {
		t.Fatalf("machine to read: %v", err)
	}
	return m
}

func dense[K comparable](seen map[K]int, key K) int {
	if _, ok := seen[key]; !ok {
		seen[key] = len(seen)
	}
	return seen[key]
}

func TestReadFindsTheMachineThatTheTreeIsOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := readable(t)
		got, err := Read(machineTree(want))
		if err != nil {
			t.Fatal(err)
		}
		if diff := topologytest.Diff(want, got); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
	})
}

func TestReadFindsShapes(t *testing.T) {
	for name, shape := range map[string]topology.Shape{
		"104 CPUs":  topology.Intel104(),
		"256 CPUs":  topology.AMD256(),
		"384 CPUs":  {Packages: 2, LLCsPerNUMA: 12, CoresPerLLC: 8, ThreadsPerCore: 2, MemoryBytesNUMA: 768 << 30},
		"1024 CPUs": {Packages: 8, NUMAPerPackage: 2, LLCsPerNUMA: 2, CoresPerLLC: 16, ThreadsPerCore: 2},
		"SMT4":      {Packages: 2, NUMAPerPackage: 2, CoresPerLLC: 4, ThreadsPerCore: 4, Numbering: topology.SiblingsAdjacent},
		"SMT8":      {Packages: 2, LLCsPerNUMA: 12, CoresPerLLC: 1, ThreadsPerCore: 8, Numbering: topology.SiblingsAdjacent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := shape.MustBuild()
			got, err := Read(machineTree(want))
			if err != nil {
				t.Fatal(err)
			}
			if diff := topologytest.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestGarbageIsNamed overwrites one file of a valid tree. Either the file is not read, or the error
// names it.
func TestGarbageIsNamed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := readable(t)
		tree := machineTree(m)
		file := rapid.SampledFrom(slices.Sorted(maps.Keys(tree))).Draw(t, "file")
		tree[file] = &fstest.MapFile{Data: []byte(rapid.SampledFrom([]string{"?", "0-", "-7", "0x1", "\x00?"}).Draw(t, "garbage"))}
		got, err := Read(tree)
		switch {
		case err == nil && topologytest.Diff(m, got) != "":
			t.Fatalf("garbage in %s changed the machine:\n%s", file, topologytest.Diff(m, got))
		case err != nil && !strings.Contains(err.Error(), file):
			t.Fatalf("garbage in %s, but the error does not name it: %v", file, err)
		}
	})
}

// TestDamage changes a valid tree in several places, sensibly or not. The result must be an error
// or a valid machine.
func TestDamage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := machineTree(readable(t))
		for range rapid.IntRange(1, 3).Draw(t, "changes") {
			file := rapid.SampledFrom(slices.Sorted(maps.Keys(tree))).Draw(t, "file")
			other := rapid.SampledFrom(slices.Sorted(maps.Keys(tree))).Draw(t, "other")
			switch rapid.IntRange(0, 4).Draw(t, "change") {
			case 0:
				if len(tree) > 1 {
					delete(tree, file)
				}
			case 1:
				tree[file] = &fstest.MapFile{}
			case 2:
				tree[file] = tree[other]
			case 3:
				list := topologytest.Subset(t, cpuset.Range(0, 20), "cpus").String()
				tree[file] = &fstest.MapFile{Data: []byte(list)}
			case 4:
				delete(tree, file)
				tree[file+"/directory"] = &fstest.MapFile{}
			}
		}
		got, err := Read(tree)
		if (err == nil) != (got != nil) {
			t.Fatalf("machine %v with error %v", got, err)
		}
		if got != nil {
			if err := got.Validate(); err != nil {
				t.Fatal(err)
			}
		} else if !strings.Contains(err.Error(), "devices/") {
			t.Fatalf("the error names no file: %v", err)
		}
	})
}
