package localnode

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	t.Chdir(f.machine.path(devicePlugins)) // so that the address of the socket is short
	must.Do(t, os.Remove("kubelet.sock"))
	listener := must.Get(net.Listen("unix", "kubelet.sock"))(t)
	defer listener.Close()
	short := filepath.Join(t.TempDir(), "m") // the same for its client
	if len(f.machine.path(devicePlugins+"/kubelet.sock")) > 107 {
		must.Do(t, os.Symlink(f.root, short))
		f.root = short
	}
	must.Do(t, f.restore())
	for _, name := range devicePluginFiles() {
		if _, err := os.Lstat(name); err != nil {
			t.Errorf("%v; logged:\n%s", err, f.log.String())
		}
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
