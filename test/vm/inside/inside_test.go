package inside

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/sysfs"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/vm/guest"
)

func TestInside(t *testing.T) {
	if os.Getenv(guest.Env) == "" {
		t.Skip("not in a virtual machine: 'go test ./test/vm' runs this test in one")
	}
	fs := must.Get(cgroup.Open("/"))(t)
	if l := fs.Layout(); l.CPU != cgroup.V2 || l.CPUSet != cgroup.V2 {
		t.Fatalf("layout %+v, want version 2", l)
	}
	m := must.Get(sysfs.Read(os.DirFS("/sys")))(t)
	if len(m.CPUs) < 8 || len(m.Packages()) < 2 || len(m.NUMANodes) < 4 || len(m.Cores())*2 != len(m.CPUs) {
		t.Fatalf("the machine does not have 2 packages, 4 NUMA nodes and SMT: %+v", m)
	}
	for name, test := range map[string]func(*testing.T, machine){
		"cpuset-order": testCPUSetOrder, "threads": testThreads, "placement": testPlacement,
		"go-parallelism": testGoParallelism, "separation": testSeparation,
	} {
		t.Run(name, func(t *testing.T) { test(t, machine{fs, m, makeGroups(t, name)}) })
	}
}

// TestHang does not end. The test of test/vm checks that this does not block it.
func TestHang(t *testing.T) {
	if os.Getenv(guest.Env) == "" {
		t.Skip("does not end: run only by test/vm, in a virtual machine")
	}
	time.Sleep(time.Hour)
}

// machine is the virtual machine with cgroups for one test.
type machine struct {
	*cgroup.FS
	topology *topology.Machine
	top      string // a cgroup with the children pod and other, each with a child container
}

func (m machine) pod() string       { return m.top + "/pod" }
func (m machine) container() string { return m.top + "/pod/container" }
func (m machine) other() string     { return m.top + "/other" }

const hierarchy = "/sys/fs/cgroup"

func makeGroups(t *testing.T, name string) string {
	t.Helper()
	top := "/inside-" + name
	for _, p := range []string{"", "/pod", "/pod/container", "/other", "/other/container"} {
		dir := hierarchy + top + p
		must.Do(t, os.Mkdir(dir, 0o755))
		t.Cleanup(func() {
			if err := remove(dir); err != nil {
				t.Errorf("remove the group: %v", err)
			}
		})
		if !strings.HasSuffix(p, "container") {
			write(t, filepath.Join(dir, "cgroup.subtree_control"), "+cpu +cpuset")
		}
	}
	return top
}

// remove removes a cgroup, which is busy for a moment after its last process has ended.
func remove(dir string) (err error) {
	for range 200 {
		if err = os.Remove(dir); err == nil {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

func write(t *testing.T, name, value string) {
	t.Helper()
	must.Do(t, os.WriteFile(name, []byte(value), 0))
}

// once measures until one of several windows is right. The host may not run an emulated CPU for a
// while, whose time the guest counts as CPU time of a task, or in a later window.
func once(t *testing.T, measure func() error) {
	t.Helper()
	const chances = 4
	var err error
	for range chances {
		if err = measure(); err == nil {
			return
		}
		t.Log(err)
	}
	t.Errorf("in each of %d windows: %v", chances, err)
}

// apply applies settings and checks the result.
func (m machine) apply(t *testing.T, wanted map[string]cgroup.Wanted) {
	t.Helper()
	o := m.Apply(wanted)
	if err := o.Err(); err != nil {
		t.Fatalf("%v\nwrote: %v", err, o.Written)
	}
	for p, w := range wanted {
		got := must.Get(m.Read(p))(t)
		if want := (cgroup.Change{Present: got, Wanted: w}).Target(); got != want {
			t.Fatalf("%s has %+v, want %+v\nwrote: %v", p, got, want, o.Written)
		}
	}
	if again := m.Apply(wanted); len(again.Written) > 0 || again.Err() != nil {
		t.Fatalf("the second time: %v, wrote %v", again.Err(), again.Written)
	}
}

func ms(n int) *time.Duration { return new(time.Duration(n) * time.Millisecond) }

func set(list string) *cpuset.Set { return new(cpuset.MustParse(list)) }
