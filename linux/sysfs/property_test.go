package sysfs

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/core/topology/topologytest"
	"pinfold.dev/pinfold/test/must"
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
	if len(m.NUMANodesOf(m.Online())) == 1 && m.CPUs[0].NUMA == topology.NoNUMA { // no CPU has a node
		first := &m.NUMANodes[0]
		first.CPUs, first.LocalCPUs = m.Online(), m.Online()
		eachCPU(m, func(c *topology.CPU) { c.NUMA = first.ID })
	}
	for i := range m.NUMANodes {
		for j, d := range m.NUMANodes[i].Distances {
			m.NUMANodes[i].Distances[j] = max(d, 1) // 0 is not a distance
		}
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
		got := must.Get(Read(machineTree(want)))(t)
		if diff := topologytest.Diff(want, got); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
	})
}

func TestReadFindsShapes(t *testing.T) {
	for name, shape := range map[string]topology.Shape{
		"104 CPUs":   topology.Intel104(),
		"256 CPUs":   topology.AMD256(),
		"8 packages": {Packages: 8, NUMAPerPackage: 2, LLCsPerNUMA: 2, CoresPerLLC: 2, ThreadsPerCore: 2, MemoryBytesNUMA: 768 << 30},
		"SMT4":       {Packages: 2, NUMAPerPackage: 2, CoresPerLLC: 4, ThreadsPerCore: 4, Numbering: topology.SiblingsAdjacent},
		"SMT8":       {Packages: 2, LLCsPerNUMA: 12, CoresPerLLC: 1, ThreadsPerCore: 8, Numbering: topology.SiblingsAdjacent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := shape.MustBuild()
			got := must.Get(Read(machineTree(want)))(t)
			if diff := topologytest.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// dependent are the levels of a machine that depend on a file: blank removes them. The first entry
// that matches counts. Files about a core are missing here: lists of threads and ids are mended by
// those of the other threads.
var dependent = []struct {
	file  *regexp.Regexp
	blank func(*topology.Machine)
}{
	{regexp.MustCompile(`/present$`), func(m *topology.Machine) { m.Offline = cpuset.Set{} }},
	{regexp.MustCompile(`/isolated$`), func(m *topology.Machine) { m.Isolated = cpuset.Set{} }},
	{regexp.MustCompile(`/die_`), func(m *topology.Machine) { eachCPU(m, func(c *topology.CPU) { c.Die = 0 }) }},
	{regexp.MustCompile(`package`), func(m *topology.Machine) {
		eachCPU(m, func(c *topology.CPU) { c.Die, c.Package = 0, 0 })
	}},
	{regexp.MustCompile(`/cache/`), func(m *topology.Machine) { eachCPU(m, func(c *topology.CPU) { c.LLC = 0 }) }},
	{regexp.MustCompile(`/cpu_capacity$`), func(m *topology.Machine) {
		m.Kinds = []topology.Kind{""}
		eachCPU(m, func(c *topology.CPU) { c.Kind = "" })
	}},
	{regexp.MustCompile(`/meminfo$`), func(m *topology.Machine) { eachNode(m, func(n *topology.NUMANode) { n.MemoryBytes = 0 }) }},
	{regexp.MustCompile(`/(distance|uevent)$`), func(m *topology.Machine) {
		eachNode(m, func(n *topology.NUMANode) { n.Distances, n.LocalCPUs = nil, n.CPUs })
	}},
	{regexp.MustCompile(`^devices/system/node/`), func(m *topology.Machine) {
		m.NUMANodes = nil
		eachCPU(m, func(c *topology.CPU) { c.NUMA = topology.NoNUMA })
	}},
}

func eachCPU(m *topology.Machine, change func(*topology.CPU)) {
	for i := range m.CPUs {
		change(&m.CPUs[i])
	}
}

func eachNode(m *topology.Machine, change func(*topology.NUMANode)) {
	for i := range m.NUMANodes {
		change(&m.NUMANodes[i])
	}
}

// TestOneDamagedFile damages one file of a valid tree. The machine is the undamaged one in all that
// does not depend on the file. If it differs at all because of garbage, a note names the file.
func TestOneDamagedFile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := readable(t)
		tree := machineTree(m)
		file := rapid.SampledFrom(slices.Sorted(maps.Keys(tree))).Draw(t, "file")
		garbage := false
		switch kind := rapid.SampledFrom([]string{"missing", "empty", "garbage", "directory", "contradiction"}).Draw(t, "damage"); kind {
		case "missing":
			delete(tree, file)
		case "empty":
			tree[file] = &fstest.MapFile{}
		case "garbage":
			garbage = true
			text := rapid.SampledFrom([]string{"?", "0-", "-7", "0x1", "\x00?", "99999999999999999999"}).Draw(t, "garbage")
			tree[file] = &fstest.MapFile{Data: []byte(text)}
		case "directory":
			delete(tree, file)
			tree[file+"/directory"] = &fstest.MapFile{}
		case "contradiction":
			if file == cpuRoot+"/online" || strings.HasSuffix(file, "/online") && strings.HasPrefix(file, cpuRoot) {
				t.Skip("which CPUs are online is then not known")
			}
			number := regexp.MustCompile(`(cpu|node)\d+`)
			like := regexp.MustCompile("^" + number.ReplaceAllString(regexp.QuoteMeta(file), `${1}\d+`) + "$")
			others := slices.DeleteFunc(slices.Sorted(maps.Keys(tree)), func(name string) bool { return !like.MatchString(name) })
			tree[file] = tree[rapid.SampledFrom(others).Draw(t, "other")]
		}
		got, notes, err := Examine(tree, cpuset.Set{})
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		must.Do(t, got.Validate())
		named := strings.Contains(strings.Join(notes, "\n"), file)
		if diff := topologytest.Diff(m, got); diff != "" && garbage && !named {
			t.Fatalf("garbage in %s changed the machine, but no note names it: %q\n%s", file, notes, diff)
		}
		for _, level := range dependent {
			if level.file.MatchString(file) {
				level.blank(m)
				level.blank(got)
				break
			}
		}
		if diff := topologytest.Diff(m, got); diff != "" {
			t.Fatalf("%s; %q: -undamaged +damaged:\n%s", file, notes, diff)
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
			must.Do(t, got.Validate())
		} else if !strings.Contains(err.Error(), "devices/system/cpu/online") {
			t.Fatalf("the CPUs are known, but: %v", err)
		}
	})
}
