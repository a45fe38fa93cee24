package sysfs

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

// update rewrites the machines in testdata from what Read returns:
// PINFOLD_UPDATE=1 go test ./linux/sysfs, then read the diff.
var update = os.Getenv("PINFOLD_UPDATE") != ""

func TestFixtures(t *testing.T) {
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("no fixtures in testdata (%v)", err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			f := readFixture(t, name)
			m, err := Read(f.tree)
			if err != nil {
				t.Fatal(err)
			}
			if update {
				f.rewrite(t, name, describe(m))
				return
			}
			if diff := cmp.Diff(f.machine, describe(m)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// refusing is a tree in which reading some files fails, as sysfs does when it
// asks a firmware that does not answer.
type refusing struct {
	fs.FS
	suffix string
	err    error
}

func (r refusing) Open(name string) (fs.File, error) {
	if strings.HasSuffix(name, r.suffix) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: r.err}
	}
	return r.FS.Open(name)
}

func TestKernelRefusesToTell(t *testing.T) {
	f := readFixture(t, "testdata/preferred-cores.txtar")
	m, err := Read(refusing{f.tree, "/nominal_perf", syscall.EIO})
	if err != nil {
		t.Fatal(err)
	}
	// Without the sustained performance the maximum frequencies are all there is.
	if want := 2; len(m.Kinds) != want {
		t.Errorf("kinds %q, want %d", m.Kinds, want)
	}
	for _, file := range []string{"/online", "cpu2/topology/core_cpus_list", "cpu", "index3/type", "cpu1/cache"} {
		_, err := Read(refusing{f.tree, file, syscall.EIO})
		if err == nil || !strings.Contains(err.Error(), file) || !errors.Is(err, syscall.EIO) {
			t.Errorf("EIO from %s: error %v", file, err)
		}
	}
}

// FuzzRead puts one file of any content into a good tree.
func FuzzRead(f *testing.F) {
	f.Add("cpu/online", "0-3\n")
	f.Add("cpu/cpu1/topology/core_cpus_list", "0-1\n")
	f.Add("cpu/cpu1/cache/index3/shared_cpu_list", "0-7\n")
	f.Add("node/node2/distance", "10 21 20\n")
	f.Add("node/online", "0-2\n")
	f.Fuzz(func(t *testing.T, name, content string) {
		tree := readFixture(t, "testdata/two-packages.txtar").tree
		name = path.Join("devices/system", name)
		if !fs.ValidPath(name) {
			t.Skip("not a path in a tree")
		}
		tree[name] = &fstest.MapFile{Data: []byte(content)}
		if m, err := Read(tree); err == nil && m.Validate() != nil {
			t.Errorf("machine that is not valid: %v", m.Validate())
		}
	})
}

func (f fixture) rewrite(t *testing.T, name, machine string) {
	t.Helper()
	for i := range f.archive.Files {
		if f.archive.Files[i].Name == "machine" {
			f.archive.Files[i].Data = []byte(machine)
			if err := os.WriteFile(name, txtar.Format(f.archive), 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("%s has no machine", name)
}
