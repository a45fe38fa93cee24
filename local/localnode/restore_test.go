package localnode

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
)

func write(t *testing.T, path, text string) string {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.Do(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

func read(t *testing.T, path string) string {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	return string(text)
}

func TestCheckHierarchies(t *testing.T) {
	clean, used, slice := t.TempDir(), t.TempDir(), t.TempDir()
	write(t, filepath.Join(used, "kubepods/cgroup.procs"), "")
	write(t, filepath.Join(slice, "kubepods.slice/cgroup.procs"), "")
	if err := checkHierarchies([]string{clean}); err != nil {
		t.Error(err)
	}
	for _, roots := range [][]string{nil, {clean, used}, {slice, clean}} {
		if err := checkHierarchies(roots); err == nil {
			t.Errorf("%v are accepted", roots)
		}
	}
}

func TestMissing(t *testing.T) {
	dir := t.TempDir()
	for _, name := range programs() {
		write(t, filepath.Join(dir, name), "")
	}
	if err := Missing(dir); err != nil {
		t.Error(err)
	}
	must.Do(t, os.Remove(filepath.Join(dir, runcProgram)))
	if err := Missing(dir); err == nil || !strings.Contains(err.Error(), "has no runc: ") {
		t.Errorf("without runc: %v", err)
	}
}

func TestMentions(t *testing.T) {
	l := layout{dir: "/data/node", run: "/run/pinfold-1"}
	for line, want := range map[string]bool{
		"kubelet\x00--config=/data/node/kubelet.yaml\x00": true,
		"shim\x00-address\x00/run/pinfold-1/c.sock\x00":   true,
		"containerd\x00--config\x00/data/node\x00":        true,
		"kubelet\x00--config=/data/node2/kubelet.yaml":    false,
		"shim\x00-address\x00/run/pinfold-11/c.sock":      false,
		"kubelet\x00--note=see,/data/node/x":              false,
		"":                                                false,
	} {
		if got := mentions(strings.Split(line, "\x00"), l); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
}

// TestKillAll starts two processes of a program with the name of a node's program: one with a path
// in the node's directory, one without.
func TestKillAll(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skipf("needs a program that waits: %v", err)
	}
	text := must.Get(os.ReadFile(sleep))(t)
	dir := t.TempDir()
	program := write(t, filepath.Join(dir, "bin", runcProgram), string(text))
	must.Do(t, os.Chmod(program, 0o755))
	l := layout{dir: filepath.Join(dir, "node"), run: filepath.Join(dir, "run")}
	begin := func(argument string) *exec.Cmd {
		command := exec.Command(program)
		command.Args = []string{argument, "60"} // as its name, which sleep ignores
		must.Do(t, command.Start())
		t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
		return command
	}
	ours, others := begin(l.dir+"/x"), begin("/elsewhere/x")
	group := filepath.Join(dir, "hierarchy") // without groups
	must.Do(t, killAll(t.Context(), l, []string{group}, nil))
	if err := ours.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the node's process ended with %v", err)
	}
	if err := others.Process.Signal(unix.Signal(0)); err != nil || isZombie(others.Process.Pid) {
		t.Errorf("another process was killed: %v", err)
	}
}

// TestAddress adds an address of the documentation range (RFC 5737) twice, and removes it twice. It
// also adds a route.
func TestAddress(t *testing.T) {
	need.This(t, "this machine's network")
	if os.Geteuid() != 0 {
		t.Skip("needs root: changes the addresses of the loopback interface")
	}
	address := netip.MustParseAddr("203.0.113.77")
	uses := func(network netip.Prefix) bool {
		used := must.Get(usedNetworks())(t)
		return slices.Contains(used, network)
	}
	has := func() bool { return uses(netip.PrefixFrom(address, 32)) }
	for _, step := range []struct {
		change func(netip.Addr) error
		want   bool
	}{{addAddress, true}, {addAddress, true}, {removeAddress, false}, {removeAddress, false}} {
		must.Do(t, step.change(address))
		if has() != step.want {
			t.Fatalf("the address exists: %v", has())
		}
	}
	routed := netip.MustParsePrefix("203.0.113.128/25")
	loopback := must.Get(netlink.LinkByName("lo"))(t)
	_, destination, _ := net.ParseCIDR(routed.String())
	route := &netlink.Route{LinkIndex: loopback.Attrs().Index, Dst: destination, Scope: netlink.SCOPE_LINK}
	must.Do(t, netlink.RouteAdd(route))
	if !uses(routed) {
		t.Errorf("the route to %v is not seen", routed)
	}
	if err := netlink.RouteDel(route); err != nil {
		t.Error(err)
	}
	if uses(routed) {
		t.Errorf("the route to %v is still seen", routed)
	}
}

func TestOneNodePerMachine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "claim")
	first := must.Get(claimMachine(path))(t)
	if _, err := claimMachine(path); err == nil || !strings.Contains(err.Error(), "another local cluster") {
		t.Errorf("a second claim: %v", err)
	}
	n := &Node{claim: first}
	n.Release()
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the lock file remains: %v", err)
	}
	second := must.Get(claimMachine(path))(t)
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

// TestRemoveLinks removes the machine's end of a pod's link, and no other interface.
func TestRemoveLinks(t *testing.T) {
	need.This(t, "this machine's network")
	if os.Geteuid() != 0 {
		t.Skip("needs root: makes network interfaces")
	}
	add := func(name, address string) netlink.Link {
		link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: "to-" + name}
		if err := netlink.LinkAdd(link); errors.Is(err, unix.EOPNOTSUPP) {
			t.Skip("needs a kernel with interfaces of the type veth")
		} else if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = netlink.LinkDel(link) }) // it may be gone
		must.Do(t, netlink.AddrAdd(link, &netlink.Addr{IPNet: netlink.NewIPNet(net.ParseIP(address).To4())}))
		return link
	}
	pods, other := add("vethpf1", "203.0.113.1"), add("vethpf2", "203.0.113.2")
	must.Do(t, removeLinks(t.Context(), netip.MustParsePrefix("203.0.113.0/24")))
	for link, want := range map[netlink.Link]bool{pods: false, other: true} {
		if _, err := net.InterfaceByIndex(link.Attrs().Index); (err == nil) != want {
			t.Errorf("%s: %v, want it kept: %t", link.Attrs().Name, err, want)
		}
	}
}
