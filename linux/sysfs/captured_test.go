package sysfs_test

import (
	"archive/tar"
	"compress/bzip2"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/linux/sysfs"
	"pinfold.dev/pinfold/test/must"
)

// machinesEnv names a folder of captured machines: NAME.tar.gz with a sys directory in each, and
// expected.json with the topologies according to hwloc.
const machinesEnv = "PINFOLD_TEST_MACHINES"

// expectation is the topology of a machine according to hwloc, as CPU lists.
type expectation struct {
	Online   string            `json:"pus"`
	Packages []string          `json:"package"`
	NumDies  int               `json:"num_die"`
	Dies     []string          `json:"die"`
	NumL3    int               `json:"num_l3"`
	L3       []string          `json:"l3"`
	L2       []string          `json:"l2"`
	Cores    []string          `json:"core"`
	NUMA     map[string]string `json:"numa"`
	Kinds    []struct {
		CPUs string `json:"cpus"`
	} `json:"cpukinds"`
}

func TestCapturedMachines(t *testing.T) {
	dir := os.Getenv(machinesEnv)
	if dir == "" {
		t.Skipf("%s is not set: name a folder of captured machines in it to run this test", machinesEnv)
	}
	text := must.Get(os.ReadFile(filepath.Join(dir, "expected.json")))(t)
	var machines map[string]struct {
		Expected expectation `json:"expected"`
	}
	must.Do(t, json.Unmarshal(text, &machines))
	if len(machines) == 0 {
		t.Fatalf("%s/expected.json lists no machine", dir)
	}
	for name, machine := range machines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := must.Get(sysfs.Read(untar(t, filepath.Join(dir, name+".tar.gz"))))(t)
			must.Do(t, m.Validate())
			if diff := cmp.Diff(wanted(machine.Expected), found(m)); diff != "" {
				t.Errorf("-hwloc +pinfold:\n%s", diff)
			}
		})
	}
}

// summary are the properties that can be compared with hwloc's.
type summary struct {
	Online                      string
	Packages, Dies, LLCs, Cores []string
	NUMA                        map[topology.NUMAID]string // CPUs to which the node is local
	Kinds                       []string                   // fastest first; one entry if all cores are alike
}

func found(m *topology.Machine) summary {
	s := summary{Online: m.Online().String(), Packages: lists(m.Packages()), Dies: lists(m.Dies()),
		LLCs: lists(m.LLCs()), Cores: lists(m.Cores()), NUMA: map[topology.NUMAID]string{}}
	for _, n := range m.NUMANodes {
		s.NUMA[n.ID] = n.LocalCPUs.String()
	}
	for _, k := range m.Kinds {
		s.Kinds = append(s.Kinds, m.CPUsOfKind(k).String())
	}
	return s
}

func lists[ID ~int](groups []topology.Group[ID]) []string {
	var lists []string
	for _, g := range groups {
		lists = append(lists, g.CPUs.String())
	}
	slices.Sort(lists)
	return lists
}

// wanted converts hwloc's description. hwloc omits dies if each package is one, and lists a cache
// only if sysfs does. CPUs without a cache share one LLC, which on the only machine with such CPUs,
// a machine of one NUMA node, is the rest of the package.
func wanted(e expectation) summary {
	s := summary{Online: e.Online, Packages: sorted(e.Packages), Dies: sorted(e.Packages), Cores: sorted(e.Cores),
		NUMA: map[topology.NUMAID]string{}}
	if e.NumDies > 0 {
		s.Dies = sorted(e.Dies)
	}
	caches := e.L2
	if e.NumL3 > 0 {
		caches = e.L3
	}
	rest := cpuset.MustParse(e.Online)
	for _, cache := range caches {
		s.LLCs = append(s.LLCs, cache)
		rest = rest.Difference(cpuset.MustParse(cache))
	}
	for _, pkg := range e.Packages {
		if left := rest.Intersection(cpuset.MustParse(pkg)); !left.IsEmpty() {
			s.LLCs = append(s.LLCs, left.String())
		}
	}
	slices.Sort(s.LLCs)
	for node, cpus := range e.NUMA {
		id, err := strconv.Atoi(node)
		if err != nil {
			panic(err)
		}
		s.NUMA[topology.NUMAID(id)] = cpus
	}
	for _, kind := range e.Kinds {
		s.Kinds = append([]string{kind.CPUs}, s.Kinds...) // hwloc lists the slowest first
	}
	if len(s.Kinds) < 2 {
		s.Kinds = []string{e.Online} // a single entry means nothing and may be incomplete
	}
	return s
}

func sorted(lists []string) []string {
	lists = slices.Clone(lists)
	slices.Sort(lists)
	return lists
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
