package localnode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/test/must"
)

const bootID = "01234567-89ab-cdef-0123-456789abcdef"

// fixture is a machine that consists of files, and a node's layout on it.
type fixture struct {
	machine
	layout
	*testing.T
	log bytes.Buffer
}

func newFixture(t *testing.T) *fixture {
	root := must.Get(os.MkdirTemp("", "node"))(t) // short, for the paths of sockets
	t.Cleanup(func() { must.Do(t, os.RemoveAll(root)) })
	f := &fixture{T: t, layout: layout{dir: filepath.Join(root, "data/node"), run: filepath.Join(root, "run/pinfold-node-1")}}
	f.machine = machine{root: root, hierarchies: func() ([]string, error) { return []string{filepath.Join(root, "cgroup")}, nil }}
	for name, value := range map[string]string{
		"kernel/random/boot_id": bootID, "vm/overcommit_memory": "0", "kernel/panic": "-1", "net/ipv4/ip_forward": "0",
		"net/ipv4/conf/one/forwarding": "0", "net/ipv4/conf/two/forwarding": "1",
	} {
		write(t, f.machine.path("/proc/sys/"+name), value+"\n")
	}
	for _, dir := range []string{f.dir, f.machine.path("/var/lib"), f.machine.path("/var/log"), f.machine.path("/cgroup")} {
		must.Do(t, os.MkdirAll(dir, 0o700))
	}
	write(t, f.machine.path("/cgroup/"+delegationName), "cpu\n")
	return f
}

// prepare does what Prepare does before the components start.
func (f *fixture) prepare() {
	f.Helper()
	s := must.Get(stateOf(f.machine, netip.MustParsePrefix("10.213.255.0/24")))(f)
	must.Do(f, s.Made.create(f.root, func() error { return s.write(f.layout) }))
}

func (f *fixture) restore() error {
	return restore(f.machine, f.layout, slog.New(slog.NewTextHandler(&f.log, nil)))
}

// tree returns the paths below the root, with the text of files.
func (f *fixture) tree() map[string]string {
	f.Helper()
	tree := map[string]string{}
	for _, path := range f.names() {
		text, _ := os.ReadFile(path) // none of a directory
		tree[strings.TrimPrefix(path, f.root)] = string(text)
	}
	return tree
}

func (f *fixture) names() []string {
	var names []string
	err := filepath.Walk(f.root, func(path string, _ os.FileInfo, err error) error {
		names = append(names, path)
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
	return names
}

// needsRoot skips a test that removes an address from the loopback interface.
func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: removes an address from the loopback interface")
	}
}

// TestRestore restores a machine after a node that changed everything that a node can change.
func TestRestore(t *testing.T) {
	needsRoot(t)
	f := newFixture(t)
	want := f.tree()
	f.prepare()
	for name, value := range map[string]string{"vm/overcommit_memory": "1", "net/ipv4/ip_forward": "1", "net/ipv4/conf/two/forwarding": "0"} {
		write(t, f.machine.path("/proc/sys/"+name), value+"\n")
	}
	if err := os.RemoveAll(f.machine.path("/proc/sys/net/ipv4/conf/one")); err != nil { // an interface that was removed
		t.Fatal(err)
	}
	delete(want, "/proc/sys/net/ipv4/conf/one")
	delete(want, "/proc/sys/net/ipv4/conf/one/forwarding")
	write(t, f.machine.path("/cgroup/"+delegationName), "cpu\n")
	f.playKubelet("pod1/c1")
	write(t, f.layout.path("containerd/state/io.containerd.runtime.v2.task/k8s.io/c1/config.json"), "")
	write(t, f.machine.path(cniRecords+"/"+networkName+"-c1-eth0"), "")
	write(t, filepath.Join(f.run, "s/1"), "")
	write(t, f.machine.path(claimPath), "") // left by a killed supervisor
	for link, target := range map[string]string{
		f.machine.path(podLogLinks + "/a.log"): f.layout.path("logs/a/0.log"), filepath.Join(f.run, dirLink): f.dir,
	} {
		must.Do(t, os.Symlink(target, link))
	}
	must.Do(t, f.restore())
	if err := os.RemoveAll(f.layout.path("containerd")); err != nil { // part of the data directory
		t.Fatal(err)
	}
	want["/run"] = ""
	if diff := cmp.Diff(want, f.tree()); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
	if f.log.Len() > 0 {
		t.Errorf("logged:\n%s", f.log.String())
	}
	if err := f.restore(); err != nil {
		t.Errorf("the second time: %v", err)
	}
}

// playKubelet creates what a kubelet creates, with the given containers.
func (f *fixture) playKubelet(containers ...string) {
	f.Helper()
	for _, container := range containers {
		must.Do(f, os.MkdirAll(f.machine.path("/cgroup/kubepods/burstable/"+container), 0o700))
	}
	write(f.T, f.machine.path(devicePlugins+"/"+deviceCheckpoint), "{}")
	must.Do(f, unix.Mknod(f.machine.path(devicePlugins+"/kubelet.sock"), unix.S_IFSOCK|0o600, 0)) // as a killed kubelet leaves it
}

// TestForgedFilesAreRejected checks that a file that names anything that a node does not change is
// rejected as a whole.
func TestForgedFilesAreRejected(t *testing.T) {
	for name, forge := range map[string]func(map[string]any){
		"another file":       func(s map[string]any) { s["sysctls"] = map[string]any{"../../etc/passwd": 1} },
		"another sysctl":     func(s map[string]any) { s["sysctls"] = map[string]any{"kernel/core_pattern": 1} },
		"up from a pattern":  func(s map[string]any) { s["sysctls"] = map[string]any{"net/ipv4/conf/../forwarding": 1} },
		"text":               func(s map[string]any) { s["sysctls"] = map[string]any{"kernel/panic": "|/tmp/x"} },
		"a value too large":  func(s map[string]any) { s["sysctls"] = map[string]any{"vm/overcommit_memory": 3} },
		"a fraction":         func(s map[string]any) { s["sysctls"] = map[string]any{"vm/overcommit_memory": 0.5} },
		"another directory":  func(s map[string]any) { s["made"] = map[string]any{"/home": ""} },
		"up from a place":    func(s map[string]any) { s["made"] = map[string]any{"/var/lib/cni/../../home": ""} },
		"no hierarchy":       func(s map[string]any) { s["controllers"] = map[string]any{"/home": []string{"cpu"}} },
		"an odd controller":  func(s map[string]any) { s["controllers"] = map[string]any{"": []string{"cpu"}} },
		"another network":    func(s map[string]any) { s["pods"] = "192.168.1.0/24" },
		"a larger network":   func(s map[string]any) { s["pods"] = "10.213.0.0/16" },
		"no network":         func(s map[string]any) { delete(s, "pods") },
		"no start":           func(s map[string]any) { s["boot"] = "" },
		"an earlier version": func(s map[string]any) { s["absent"] = []string{"/home"} },
		"a run directory":    func(s map[string]any) { s["run"] = "/home" },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.prepare()
			write(t, f.machine.path("/etc/passwd"), "root\n")
			write(t, f.machine.path("/home/letter"), "dear\n")
			write(t, f.machine.path("/proc/sys/vm/overcommit_memory"), "1\n") // would be restored
			var values map[string]any
			must.Do(t, json.Unmarshal([]byte(read(t, f.layout.path(savedName))), &values))
			forge(values)
			text := must.Get(json.Marshal(values))(t)
			f.expectRejected(string(text))
		})
	}
	for name, text := range map[string]string{"half a file": "{", "two": "{}{}", "a list": "[]", "nothing": ""} {
		t.Run(name, func(t *testing.T) { newFixture(t).expectRejected(text) })
	}
}

func (f *fixture) expectRejected(text string) {
	f.Helper()
	must.Do(f, os.WriteFile(f.layout.path(savedName), []byte(text), 0o600))
	must.Do(f, os.Chmod(f.layout.path(savedName), 0o600))
	want := f.tree()
	if err := f.restore(); err == nil || !strings.Contains(err.Error(), "nothing was restored") {
		f.Errorf("error %v, want one that rejects the file", err)
	}
	if diff := cmp.Diff(want, f.tree()); diff != "" {
		f.Errorf("something changed (-before +after):\n%s", diff)
	}
}

// TestLinksAreNotFollowed checks that a symbolic link in place of a sysctl is not followed.
func TestLinksAreNotFollowed(t *testing.T) {
	f := newFixture(t)
	victim := write(t, f.machine.path("/etc/passwd"), "root\n")
	must.Do(t, os.RemoveAll(f.machine.path("/proc/sys/kernel/panic")))
	must.Do(t, os.Symlink(victim, f.machine.path("/proc/sys/kernel/panic")))
	if err := writeSysctls(f.machine, map[string]int64{"kernel/panic": 7}); err == nil {
		t.Error("a link out of /proc/sys was followed")
	}
	if got := read(t, victim); got != "root\n" {
		t.Errorf("the file that a link leads to contains %q", got)
	}
}

// TestAfterReboot checks that sysctls and cgroups of another boot are not changed.
func TestAfterReboot(t *testing.T) {
	f := newFixture(t)
	f.prepare()
	f.playKubelet("pod1/c1")
	write(t, f.layout.path("containerd/state/io.containerd.runtime.v2.task/k8s.io/c1/config.json"), "")
	write(t, f.machine.path("/proc/sys/vm/overcommit_memory"), "1\n")
	write(t, f.machine.path("/proc/sys/kernel/random/boot_id"), strings.ReplaceAll(bootID, "0", "1"))
	must.Do(t, f.restore())
	if got := read(t, f.machine.path("/proc/sys/vm/overcommit_memory")); got != "1\n" {
		t.Errorf("overcommit_memory is %q, want it unchanged", got)
	}
	for path, stays := range map[string]bool{"/cgroup/kubepods/burstable/pod1/c1": true, "/var/lib/kubelet": false, "/var/lib": true} {
		if _, err := os.Stat(f.machine.path(path)); (err == nil) != stays {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestOwnProcesses checks that processes of another kubelet's containers are not taken for the
// node's.
func TestOwnProcesses(t *testing.T) {
	sleep := exec.Command("sleep", "60")
	sleep.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := sleep.Start(); err != nil {
		t.Skipf("needs a program that waits: %v", err)
	}
	t.Cleanup(func() { _ = sleep.Process.Kill(); _ = sleep.Wait() })
	root := t.TempDir()
	own, pid := os.Getpid(), sleep.Process.Pid
	first, second := strings.Repeat("1", 64), strings.Repeat("2", 64)
	for name, groups := range map[string][2]string{
		"cgroupfs": {"kubepods/burstable/pod1/" + first, "kubepods/pod2/" + second},
		"systemd": {"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice/cri-containerd-" + first + ".scope",
			"kubepods.slice/kubepods-pod2.slice/cri-containerd-" + second + ".scope"},
	} {
		dir := filepath.Join(root, name)
		write(t, filepath.Join(dir, groups[0], "nested/cgroup.procs"), fmt.Sprintln(own))
		write(t, filepath.Join(dir, groups[1], "cgroup.procs"), fmt.Sprintln(pid))
		got, err := ownProcesses(layout{dir: root, run: root}, []string{dir}, []string{first})
		if err != nil || !slices.Equal(got, []int{own}) {
			t.Errorf("%s: processes %v (%v), want %d and not %d", name, got, err, own, pid)
		}
	}
	if isInContainer(own, []string{first}) {
		t.Error("this process is not in a container of that name")
	}
}

func TestRestoreWithoutRecord(t *testing.T) {
	f := newFixture(t)
	if err := f.restore(); err != nil {
		t.Errorf("no record: %v", err)
	}
	f.dir += "/absent"
	if err := f.restore(); err != nil {
		t.Errorf("no directory: %v", err)
	}
}

func TestControllers(t *testing.T) {
	root := t.TempDir()
	path := write(t, filepath.Join(root, delegationName), "cpu\n")
	before, err := readControllers([]string{root, t.TempDir()})
	if err != nil || len(before) != 1 {
		t.Fatalf("%+v (%v)", before, err)
	}
	write(t, path, "cpu memory\n")
	must.Do(t, restoreControllers(before))
	// The kernel would remove the controller; a file contains what was written.
	if got := read(t, path); !strings.HasPrefix(got, "-memory") {
		t.Errorf("wrote %q", got)
	}
}
