package sysfs_test

import (
	"archive/tar"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/linux/sysfs"
	"pinfold.dev/pinfold/test/must"
)

// dumpsEnv names a folder with the unpacked sources of util-linux and hwloc, whose tests have dumps
// of machines and what lscpu and lstopo say about them. "fetch_dumps" in .ci/run makes it.
const dumpsEnv = "PINFOLD_TEST_DUMPS"

// levels are the sets of CPUs of each level of a machine, sorted. The keys are "online", "core",
// "package", "node" (the CPUs of each NUMA node), "local" (those to which its memory is local) and
// "cache" (the last-level cache of the CPUs that have one).
type levels map[string][]string

// TestDumps reads each dump and compares it with what lscpu or lstopo say. deviations has the
// reasons for differences.
func TestDumps(t *testing.T) {
	dir := os.Getenv(dumpsEnv)
	if dir == "" {
		t.Skipf("%s is not set: name a folder with the sources of util-linux and hwloc to run this test", dumpsEnv)
	}
	for _, tool := range []struct {
		dumps, expected string
		parse           func(string) levels
	}{
		{"util-linux-*/tests/ts/lscpu/dumps/*.tar.*", "../../../expected/lscpu/lscpu-NAME", parseLscpu},
		{"hwloc-*/tests/hwloc/linux/*.tar.*", "NAME.output", parseLstopo},
	} {
		dumps, err := filepath.Glob(filepath.Join(dir, tool.dumps))
		if err != nil || len(dumps) == 0 {
			t.Errorf("no dumps %s in %s (%v)", tool.dumps, dir, err)
		}
		for _, dump := range dumps {
			name, _, _ := strings.Cut(filepath.Base(dump), ".tar.")
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				m, notes, err := sysfs.Examine(untar(t, dump), cpuset.Set{})
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%d CPUs; notes: %q", len(m.CPUs), notes)
				if len(notes) > 8 {
					t.Errorf("%d notes", len(notes))
				}
				compareDump(t, name, m, filepath.Join(filepath.Dir(dump), strings.Replace(tool.expected, "NAME", name, 1)), tool.parse)
			})
		}
	}
}

func compareDump(t *testing.T, name string, m *topology.Machine, expected string, parse func(string) levels) {
	t.Helper()
	reasons := deviations[name]
	if reasons["all"] != "" {
		return
	}
	text := must.Get(os.ReadFile(expected))(t)
	want := parse(string(text))
	found := levelsOf(m)
	if reasons["online"] != "" { // the tool shows only some of the CPUs
		for level := range found {
			found[level] = among(want["online"][0], level == "local", found[level])
		}
	}
	found["cache"] = only(found["cache"], want["cache"])
	for level := range want {
		if len(want[level]) == 0 {
			continue // the tool does not show it
		}
		diff := cmp.Diff(among(m.Online().String(), true, want[level]), found[level])
		if level == "online" && reasons["online"] != "" {
			diff = cmp.Diff(want[level][0], m.Online().String())
		}
		switch reason := reasons[level]; {
		case diff != "" && reason == "":
			t.Errorf("%s: -expected +pinfold:\n%s", level, diff)
		case diff == "" && reason != "":
			t.Errorf("%s: the same, so this reason for a difference is wrong: %s", level, reason)
		}
	}
}

// among returns the sets with only the CPUs of a list. Empty sets are kept on request.
func among(list string, keep bool, sets []string) (left []string) {
	for _, set := range sets {
		rest := cpuset.MustParse(set).Intersection(cpuset.MustParse(list)).String()
		if keep || rest != "" {
			left = append(left, rest)
		}
	}
	slices.Sort(left)
	return left
}

// only returns the sets that have CPUs of the others.
func only(sets, others []string) []string {
	var all cpuset.Set
	for _, other := range others {
		all = all.Union(cpuset.MustParse(other))
	}
	return slices.DeleteFunc(sets, func(set string) bool { return !all.Intersects(cpuset.MustParse(set)) })
}

func levelsOf(m *topology.Machine) levels {
	found := levels{"online": {m.Online().String()}, "core": lists(m.Cores()), "package": lists(m.Packages()), "cache": lists(m.LLCs())}
	for _, n := range m.NUMANodes {
		found["node"] = append(found["node"], n.CPUs.String())
		found["local"] = append(found["local"], n.LocalCPUs.String())
	}
	slices.Sort(found["node"])
	slices.Sort(found["local"])
	return found
}

func lists[ID ~int](groups []topology.Group[ID]) []string {
	var lists []string
	for _, g := range groups {
		lists = append(lists, g.CPUs.String())
	}
	slices.Sort(lists)
	return lists
}

// groups collects the CPUs of each key.
type groups map[string]cpuset.Set

func (g groups) add(key string, cpus cpuset.Set) { g[key] = g[key].Union(cpus) }

func (g groups) lists() (lists []string) {
	for _, set := range g {
		lists = append(lists, set.String())
	}
	slices.Sort(lists)
	return lists
}

var lscpuEmptyNode = regexp.MustCompile(`(?m)^NUMA node\d+ CPU\(s\): *$`)

// parseLscpu parses what lscpu prints: a summary, and a table with one line for each online CPU,
// "CPU,Core,Socket,Node,,L1d,L1i,L2", of which fields may be empty. The table lacks NUMA nodes
// without CPUs.
func parseLscpu(text string) levels {
	all := map[string]groups{"online": {}, "core": {}, "package": {}, "node": {}, "cache": {}}
	_, table, _ := strings.Cut(text, "# CPU,Core,Socket,Node")
	header, table, _ := strings.Cut(table, "\n")
	caches := strings.Split(header, ",")[1:]
	for line := range strings.Lines(table) {
		fields := strings.Split(strings.TrimSpace(line), ",")
		if len(fields) < 4 {
			break
		}
		cpu := cpuset.MustParse(fields[0])
		all["online"].add("", cpu)
		all["core"].add(fields[1], cpu)
		all["package"].add(fields[2], cpu)
		if fields[3] != "" {
			all["node"].add(fields[3], cpu)
		}
		for i := len(fields) - 1; i >= 4 && i-4 < len(caches); i-- {
			if name := caches[i-4]; fields[i] != "" && name > "L2" {
				all["cache"].add(name+fields[i], cpu)
				break
			}
		}
	}
	want := levels{}
	for level, g := range all {
		want[level] = g.lists()
	}
	for range lscpuEmptyNode.FindAllString(text, -1) {
		want["node"] = append([]string{""}, want["node"]...)
	}
	return want
}

var lstopoObject = regexp.MustCompile(`^( *)(\w+)(?:\([^)]*\))? (?:L#(\d+) )?(?:\(P#(\d+))?`)

// parseLstopo parses what lstopo -v prints: a tree of objects, one a line, by indentation. A NUMA
// node is a child of the object whose CPUs are local to it. Packages, cores and caches that lstopo
// does not show are not compared.
func parseLstopo(text string) levels {
	type object struct {
		indent     int
		kind, name string
	}
	all := map[string]groups{"online": {}, "local": {}}
	kinds := map[string]string{"Package": "package", "Core": "core", "L2Cache": "cache", "L3Cache": "cache", "L4Cache": "cache"}
	var above []object
	nodesOf := map[string][]string{} // by the name of the parent
	for number, line := range slices.All(strings.Split(text, "\n")) {
		match := lstopoObject.FindStringSubmatch(line)
		if strings.HasPrefix(line, "depth 0:") {
			break
		}
		if match == nil {
			continue
		}
		o := object{len(match[1]), match[2], match[2] + " " + match[3] + " " + line + string(rune(number))}
		for len(above) > 0 && above[len(above)-1].indent >= o.indent {
			above = above[:len(above)-1]
		}
		if o.kind == "NUMANode" {
			parent := len(above) - 1
			for above[parent].kind == "MemCache" || above[parent].kind == "MemSideCache" {
				parent--
			}
			nodesOf[above[parent].name] = append(nodesOf[above[parent].name], o.name)
			all["local"].add(o.name, cpuset.Set{})
		}
		if o.kind == "PU" {
			cpu, cached := cpuset.MustParse(match[4]), false
			all["online"].add("", cpu)
			for _, a := range above {
				for _, node := range nodesOf[a.name] {
					all["local"].add(node, cpu)
				}
				level := kinds[a.kind]
				if level == "" || level == "cache" && cached {
					continue
				}
				cached = cached || level == "cache" // the outermost is the last-level cache
				if all[level] == nil {
					all[level] = groups{}
				}
				all[level].add(a.name, cpu)
			}
		}
		above = append(above, o)
	}
	want := levels{}
	for level, g := range all {
		want[level] = g.lists()
	}
	return want
}

// untar reads the sys directory of a compressed archive, including symbolic links. It is at the top
// or in the only directory there.
func untar(t *testing.T, name string) fs.FS {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var z io.Reader
	if path.Ext(name) == ".bz2" {
		z = bzip2.NewReader(f)
	} else if z, err = gzip.NewReader(f); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	tree := fstest.MapFS{}
	for archive := tar.NewReader(z); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		file := path.Clean(h.Name)
		switch h.Typeflag {
		case tar.TypeDir:
			tree[file] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
		case tar.TypeSymlink:
			tree[file] = &fstest.MapFile{Mode: fs.ModeSymlink, Data: []byte(strings.TrimSuffix(h.Linkname, "/"))}
		case tar.TypeReg:
			content, err := io.ReadAll(archive)
			if err != nil {
				t.Fatalf("%s: %s: %v", name, file, err)
			}
			tree[file] = &fstest.MapFile{Data: content}
		}
	}
	for _, pattern := range []string{"sys", "*/sys"} {
		if found, err := fs.Glob(tree, pattern); err == nil && len(found) == 1 {
			return must.Get(fs.Sub(tree, found[0]))(t)
		}
	}
	t.Fatalf("%s: no directory sys", name)
	return nil
}

// Reasons of several dumps.
const (
	onlyXML     = "what lstopo shows is compared only as text"
	cgroupOfIt  = "lstopo shows only the CPUs that the dump's control group may use"
	memoryOfIt  = "lstopo shows only the memory that the dump's control group may use"
	noPackages  = "the kernel knows no packages: the lists have the threads of a core, and the ids are -1; pinfold makes one package of all"
	emptyShared = "the lists of the last-level cache are empty; pinfold assumes one per package, lstopo one per core"
	besideCache = "lstopo shows the memory-side cache, which is not among the files of caches"
)

// deviations are the reasons why pinfold differs from lscpu or lstopo, by dump and level. "all"
// says why nothing can be compared.
var deviations = map[string]map[string]string{
	"arm-A510-A710-A715-X3": {
		"core":    "lscpu numbers the cores of each kind anew",
		"package": "lscpu shows one package for each kind of core; the kernel says that clusters are packages",
	},
	"rv64-linux":                    {"all": "lscpu shows no CPU"},
	"sparc64":                       {"package": noPackages},
	"s390-zvm":                      {"package": noPackages},
	"s390-kvm":                      {"package": noPackages},
	"ppc64-POWER7":                  {"package": noPackages},
	"ppc64-POWER7-64cpu":            {"package": noPackages},
	"256ppc-8n8s4t":                 {"package": noPackages},
	"4ia64-4s":                      {"package": noPackages},
	"16ia64-8n2s":                   {"package": "the lists have only the CPU itself; pinfold uses the ids, which are the same for both packages of a node"},
	"8ia64-4s2c":                    {"cache": emptyShared},
	"8ia64-2s2c2t":                  {"cache": emptyShared},
	"8ia64-2n2s2c":                  {"cache": emptyShared},
	"128ia64-17n4s2c":               {"local": "lstopo shows no CPUs for the node without CPUs; pinfold takes the nearest"},
	"64intel64-fakeKNL-A2A-cache":   {"cache": besideCache},
	"64intel64-fakeKNL-SNC4-hybrid": {"cache": besideCache},
	"64amd64-4s2n4ca2co":            {"core": "the kernel says that the two cores of a Bulldozer module are threads of one core"},
	"40intel64-4n10c+pci-conflicts": {
		"package": "lstopo leaves out a package that conflicts with the devices of the dump",
		"cache":   "lstopo leaves out a cache that conflicts with the devices of the dump",
	},
	"nvidiagpunumanodes":                 {"local": "lstopo hides the memory of graphics cards"},
	"fakememinitiators-1np2c+1npp+gi":    {"local": "lstopo hides nodes without memory"},
	"16em64t-4s2ca2c-cpusetreorder":      {"online": cgroupOfIt},
	"16amd64-8n2c-cpusets":               {"online": cgroupOfIt, "local": memoryOfIt},
	"16amd64-4n4c-cgroup-distance-merge": {"online": cgroupOfIt, "local": memoryOfIt},
	"32amd64-4s2n4c-cgroup2":             {"online": cgroupOfIt, "local": memoryOfIt},
	"4fake-4gr1nu1pu":                    {"online": cgroupOfIt, "local": memoryOfIt},
	"2i386-2t-hugepagesizecount":         {"all": onlyXML},
	"2i386-2c-nohugepage":                {"all": onlyXML},
	"32em64t-2n8c+1mic":                  {"all": onlyXML},
	"40intel64-2g2n4c+pci":               {"all": onlyXML},
	"fakeheterocpunuma":                  {"all": onlyXML},
	"4em64t-2c2t-ignore-reorder":         {"all": "lstopo shows only CPUs here, by its options"},
}
