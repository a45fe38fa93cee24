package sysfs

import (
	"errors"
	"io/fs"
	"path"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"golang.org/x/tools/txtar"

	"pinfold.dev/pinfold/test/golden"
)

// TestFixtures reads the /sys tree of each archive in testdata. Its file "machine" is the result of
// Read, in the form of [describe].
func TestFixtures(t *testing.T) {
	golden.Archives(t, "testdata/*.txtar", "machine", func(t *testing.T, given *txtar.Archive) string {
		tree, err := ParseArchive(txtar.Format(given))
		if err != nil {
			t.Fatal(err)
		}
		m, err := Read(tree)
		if err != nil {
			t.Fatal(err)
		}
		return describe(m)
	})
}

// refusing is a tree in which reading some files fails, as in sysfs if the firmware does not
// answer.
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
	tree := readTree(t, "testdata/preferred-cores.txtar")
	m, err := Read(refusing{tree, "/nominal_perf", syscall.EIO})
	if err != nil {
		t.Fatal(err)
	}
	// Without the sustained performance only the maximum frequencies are left.
	if want := 2; len(m.Kinds) != want {
		t.Errorf("kinds %q, want %d", m.Kinds, want)
	}
	for _, file := range []string{"/online", "cpu2/topology/core_cpus_list", "cpu", "index3/type", "cpu1/cache"} {
		_, err := Read(refusing{tree, file, syscall.EIO})
		if err == nil || !strings.Contains(err.Error(), file) || !errors.Is(err, syscall.EIO) {
			t.Errorf("EIO from %s: error %v", file, err)
		}
	}
}

// FuzzRead writes one file of any content into a valid tree.
func FuzzRead(f *testing.F) {
	f.Add("cpu/online", "0-3\n")
	f.Add("cpu/cpu1/topology/core_cpus_list", "0-1\n")
	f.Add("cpu/cpu1/cache/index3/shared_cpu_list", "0-7\n")
	f.Add("node/node2/distance", "10 21 20\n")
	f.Add("node/online", "0-2\n")
	f.Fuzz(func(t *testing.T, name, content string) {
		tree := readTree(t, "testdata/two-packages.txtar")
		name = path.Join("devices/system", name)
		if !fs.ValidPath(name) {
			t.Skip("not a path in a tree")
		}
		tree[name] = &fstest.MapFile{Data: []byte(content)}
		if m, err := Read(tree); err == nil && m.Validate() != nil {
			t.Errorf("invalid machine: %v", m.Validate())
		}
	})
}
