package localnode

import (
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/test/must"
)

// TestOthersAreKept checks that Restore keeps what other programs created since a crash, and what
// they share with the node.
func TestOthersAreKept(t *testing.T) {
	needsRoot(t)
	for name, files := range map[string]map[string]string{
		"a kubelet's files":         {"/var/lib/kubelet/config.yaml": "kind: KubeletConfiguration", "/var/lib/kubelet/pki/kubelet.key": "secret"},
		"a device plugin":           {devicePlugins + "/gpu.sock": ""},
		"another runtime's records": {cniRecords + "/other-c9-eth0": "{}"},
		"another network":           {"/var/lib/cni/networks/other/10.0.0.1": "c9"},
		"another container's log":   {podLogLinks + "/x.log": "a line"},
		"another run directory":     {"/run/pinfold-node-1/socket": ""},
		"another kubelet's containers": {
			"/cgroup/kubepods/burstable/pod2/c2/cpu.weight": "1",
			"/proc/sys/vm/overcommit_memory":                "1\n", // a value that it needs
			"/cgroup/" + delegationName:                     "cpu memory\n",
			devicePlugins + "/kubelet_internal_checkpoint":  "its devices",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.prepare()
			f.playKubelet("pod1/c1")
			write(t, f.layout.path("containerd/state/io.containerd.runtime.v2.task/k8s.io/c1/config.json"), "")
			for path, text := range files {
				write(t, f.machine.path(path), text)
			}
			must.Do(t, f.restore())
			got := f.tree()
			for path, text := range files {
				if now, there := got[path]; !there || now != text {
					t.Errorf("%s: exists %v, with %q, want %q", path, there, now, text)
				}
			}
			if _, there := got["/cgroup/kubepods/burstable/pod1"]; there {
				t.Error("the node's own group remains")
			}
			if !strings.Contains(f.log.String(), "kept") {
				t.Errorf("what is kept is not logged:\n%s", f.log.String())
			}
		})
	}
}

// TestServingKubeletIsKept checks that the files of a serving kubelet are kept, although they have
// the same names as the node's.
func TestServingKubeletIsKept(t *testing.T) {
	needsRoot(t)
	f := newFixture(t)
	f.prepare()
	f.playKubelet()
	f.serve(devicePlugins + "/kubelet.sock")
	must.Do(t, f.restore())
	for _, name := range []string{"kubelet.sock", deviceCheckpoint} {
		if _, err := os.Lstat(f.machine.path(devicePlugins + "/" + name)); err != nil {
			t.Errorf("%v; logged:\n%s", err, f.log.String())
		}
	}
}

// serve listens on a socket until the end of the test.
func (f *fixture) serve(path string) {
	f.Helper()
	_ = os.Remove(f.machine.path(path)) // one without a server
	listener := must.Get(net.Listen("unix", f.machine.path(path)))(f)
	f.Cleanup(func() { _ = listener.Close() })
}

// TestNextNode checks that the next node is refused only for files that are not the node's, whatever
// else is beside the sockets of the node's kubelet and device plugins.
func TestNextNode(t *testing.T) {
	for name, c := range map[string]struct{ serves, file, refused string }{
		"nothing else":              {},
		"a device plugin":           {serves: devicePlugins + "/gpu.sock", refused: devicePlugins + "/gpu.sock"},
		"a file":                    {file: devicePlugins + "/note", refused: devicePlugins + "/note"},
		"a directory of the agent":  {file: "/var/lib/kubelet/plugins/cpu.pinfold.dev/dra.sock"},
		"another kubelet's key":     {file: "/var/lib/kubelet/pki/kubelet.key"},
		"a directory and a program": {file: "/var/lib/kubelet/plugins/x", serves: devicePlugins + "/gpu.sock", refused: devicePlugins + "/gpu.sock"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.prepare()
			f.playKubelet()
			must.Do(t, os.Remove(f.machine.path(devicePlugins+"/"+deviceCheckpoint))) // no pod had devices
			must.Do(t, unix.Mknod(f.machine.path(devicePlugins+"/ended.sock"), unix.S_IFSOCK|0o600, 0))
			if c.file != "" {
				write(t, f.machine.path(c.file), "")
			}
			if c.serves != "" {
				f.serve(c.serves)
			}
			before := must.Get(readSaved(f.machine, f.layout))(t)
			logger := slog.New(slog.NewTextHandler(&f.log, nil))
			for range 2 { // the second after a down that was killed
				must.Do(t, removeOutside(f.machine, f.dir, before.Made, "", logger))
			}
			err := checkOutside(f.machine)
			if (err != nil) != (c.refused != "") || err != nil && !strings.Contains(err.Error(), c.refused) {
				t.Errorf("the next node: %v, want it refused for %q", err, c.refused)
			}
			if c.refused != "" && !strings.Contains(f.log.String(), "a node cannot start until they are removed") {
				t.Errorf("logged:\n%s", f.log.String())
			}
		})
	}
}

// TestFilesOfAKubeletAreRejected checks that a machine with files of a kubelet is rejected, because
// the node's kubelet would remove them.
func TestFilesOfAKubeletAreRejected(t *testing.T) {
	f := newFixture(t)
	if err := checkOutside(f.machine); err != nil {
		t.Error(err)
	}
	f.playKubelet()
	if err := checkOutside(f.machine); err == nil || !strings.Contains(err.Error(), devicePlugins) {
		t.Errorf("a kubelet's files: %v", err)
	}
}

func TestIsPodLink(t *testing.T) {
	pods := netip.MustParsePrefix("10.213.0.0/24")
	for text, want := range map[string]bool{"veth1 10.213.0.1/32": true, "veth1 10.213.0.1/24": false, "wg0 10.213.0.1/32": false, "veth1 10.213.0.2/32": false} {
		name, address, _ := strings.Cut(text, " ")
		ip, network, err := net.ParseCIDR(address)
		if err != nil {
			t.Fatal(err)
		}
		network.IP = ip
		if got := isPodLink(name, []net.Addr{network}, pods); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
