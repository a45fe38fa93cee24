package sysfs

import (
	"io/fs"
	"path"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"golang.org/x/tools/txtar"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology/topologytest"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// TestFixtures reads the /sys tree of each archive in testdata. Its file "machine" is the result of
// Examine, in the form of [describe], with the notes.
func TestFixtures(t *testing.T) {
	golden.Archives(t, "testdata/*.txtar", "machine", func(t *testing.T, given *txtar.Archive) string {
		tree := must.Get(ParseArchive(txtar.Format(given)))(t)
		m, notes, err := Examine(tree, cpuset.Set{})
		if err != nil {
			t.Fatal(err)
		}
		text := describe(m)
		for _, note := range notes {
			text += "note " + note + "\n"
		}
		return text
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
	m := must.Get(Read(refusing{tree, "/nominal_perf", syscall.EIO}))(t)
	// Without the sustained performance only the maximum frequencies are left.
	if want := 2; len(m.Kinds) != want {
		t.Errorf("kinds %q, want %d", m.Kinds, want)
	}
	undamaged := must.Get(Read(tree))(t)
	for _, file := range []string{"/online", "cpu2/topology/core_cpus_list", "cpu", "cpu1/cache/index3/type", "cpu1/cache", "/isolated"} {
		m, notes, err := Examine(refusing{tree, file, syscall.EIO}, cpuset.Set{})
		if err != nil {
			t.Errorf("EIO from %s: %v", file, err)
			continue
		}
		if text := strings.Join(notes, "\n"); !strings.Contains(text, file) || !strings.Contains(text, syscall.EIO.Error()) {
			t.Errorf("EIO from %s: notes %q", file, notes)
		}
		if diff := topologytest.Diff(undamaged, m); diff != "" {
			t.Errorf("EIO from %s: -undamaged +damaged:\n%s", file, diff)
		}
	}
	tree[cpuRoot+"/nohz_full"] = &fstest.MapFile{Data: []byte("(null)\n")} // a kernel that could have some
	if _, notes, err := Examine(tree, cpuset.Set{}); err != nil || len(notes) > 0 {
		t.Errorf("no CPUs of nohz_full: %q (%v)", notes, err)
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
