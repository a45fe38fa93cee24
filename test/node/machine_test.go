package node

import (
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/sys/mountinfo"

	"pinfold.dev/pinfold/linux/systemd"
	"pinfold.dev/pinfold/test/must"
)

// machine is what a node must leave unchanged, as lines by subject.
type machine map[string][]string

// changing matches sysctls that the kernel changes by itself.
var changing = regexp.MustCompile(`/(random/.*|ns_last_pid|pty/nr|tcp_mem|udp_mem|flush|stat_refresh|sched_domain/.*)$`)

// nodeMount matches a node's mounts. Other tests mount other things.
var nodeMount = regexp.MustCompile(`^(overlay|nsfs) |pinfold|kube|containerd|cni`)

// lookAt reads the state of the machine. It includes only cgroups with names that a kubelet uses,
// because other tests have cgroups, too.
func lookAt(t *testing.T) machine {
	t.Helper()
	m := machine{}
	for _, dir := range []string{"vm", "kernel", "net/ipv4"} {
		err := filepath.WalkDir("/proc/sys/"+dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || changing.MatchString(path) {
				return nil //nolint:nilerr // an interface of another program may be removed
			}
			if value, err := os.ReadFile(path); err == nil {
				m["sysctls"] = append(m["sysctls"], path+" = "+string(value))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	mounts := must.Get(mountinfo.GetMounts(nil))(t)
	for _, mount := range mounts {
		if nodeMount.MatchString(mount.FSType + " " + mount.Mountpoint) {
			m["mounts"] = append(m["mounts"], mount.FSType+" on "+mount.Mountpoint)
		}
		if strings.HasPrefix(mount.FSType, "cgroup") {
			groups := must.Get(filepath.Glob(mount.Mountpoint + "/kubepods*"))(t)
			m["control groups"] = append(m["control groups"], groups...)
		}
	}
	interfaces := must.Get(net.Interfaces())(t)
	for _, link := range interfaces {
		addresses := must.Get(link.Addrs())(t)
		m["interfaces"] = append(m["interfaces"], fmt.Sprint(link.Name, addresses))
	}
	for _, pattern := range []string{"/run/[!p]*", "/run/pinfold-node-*", "/var/lib/*", "/var/log/*", "/opt/*", "/etc/*", "/usr/libexec/*", "/var/lib/cni/*"} {
		paths := must.Get(filepath.Glob(pattern))(t)
		m["directories"] = append(m["directories"], paths...)
	}
	if systemd.Running("/") {
		units := must.Get(exec.Command("systemctl", "list-units", "--all", "--plain", "--no-legend", "kubepods*", "cri-*").Output())(t)
		m["units of systemd"] = slices.Collect(strings.Lines(string(units)))
	}
	return m
}

// expectUnchanged compares with the current state of the machine.
func (m machine) expectUnchanged(t *testing.T) {
	t.Helper()
	after := lookAt(t)
	for _, subject := range slices.Sorted(maps.Keys(m)) {
		if diff := cmp.Diff(m[subject], after[subject]); diff != "" {
			t.Errorf("%s were not restored (-before +after):\n%s", subject, diff)
		}
	}
	if left := after["control groups"]; len(left) > 0 {
		t.Errorf("cgroups remain: %v", left)
	}
}

// processesOf returns the command lines of the processes that mention a directory.
func processesOf(t *testing.T, dir string) []string {
	t.Helper()
	lines := must.Get(filepath.Glob("/proc/[0-9]*/cmdline"))(t)
	var found []string
	for _, path := range lines {
		if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), dir) {
			found = append(found, strings.ReplaceAll(string(text), "\x00", " "))
		}
	}
	return found
}
