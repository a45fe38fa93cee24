package localnode

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"pinfold.dev/pinfold/linux/kubepods"
	"pinfold.dev/pinfold/linux/systemd"
	"pinfold.dev/pinfold/local/images"
)

// The node's programs.
const (
	kubeletProgram    = "kubelet"
	containerdProgram = "containerd"
	shimProgram       = "containerd-shim-runc-v2"
	runcProgram       = "runc"
)

// programs returns the paths of all programs, relative to their directory.
func programs() []string {
	names := []string{kubeletProgram, containerdProgram, shimProgram, runcProgram, networkPlugin, addressPlugin}
	for _, name := range images.Programs() {
		names = append(names, filepath.Join(imagesDir, images.Path(name)))
	}
	return names
}

// imagesDir is the directory of the images' programs, relative to that of the node's programs.
const imagesDir = "images"

// Missing returns an error that lists the programs that are missing in the directory binaries.
func Missing(binaries string) error {
	var missing []string
	for _, name := range programs() {
		if info, err := os.Stat(filepath.Join(binaries, name)); err != nil || !info.Mode().IsRegular() {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%s has no %s: build them with \"make build-node\"", binaries, strings.Join(missing, ", "))
}

// errNotRoot reports that the user may not make this machine a node.
var errNotRoot = errors.New("a real node needs root: it makes cgroups, mounts and network namespaces; " +
	"run this with sudo, or without --node for simulated nodes only")

// checkMachine returns an error if this machine cannot be a node.
func checkMachine(options Options) error {
	if os.Geteuid() != 0 {
		return errNotRoot
	}
	if err := Missing(options.Binaries); err != nil {
		return err
	}
	if options.driver() == kubepods.Systemd && !systemd.Running("/") {
		return errors.New("systemd does not run on this machine: use --cgroup-driver=cgroupfs")
	}
	if err := Occupied(); err != nil {
		return err
	}
	return checkOutside(host())
}

// Occupied returns an error if a kubelet runs on this machine, or has left its cgroups.
func Occupied() error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	return checkHierarchies(roots)
}

// checkHierarchies returns an error if there are no cgroup hierarchies or if one has a kubelet's
// group.
func checkHierarchies(hierarchies []string) error {
	if len(hierarchies) == 0 {
		return errors.New("no cgroups are mounted, expected them below /sys/fs/cgroup: a kubelet cannot run here")
	}
	for _, root := range hierarchies {
		for _, n := range namings() {
			group := n.top(root)
			if _, err := os.Stat(group); err == nil {
				return fmt.Errorf("%s exists: a kubelet runs on this machine, or left it behind; %s", group, whatToDo())
			}
		}
	}
	return nil
}

// whatToDo says how to remove a kubelet's cgroups. Those of a local cluster are removed when it
// stops.
func whatToDo() string {
	if links, err := filepath.Glob(filepath.Join(filepath.Dir(layoutOf("").run), runPrefix+"*", dirLink)); err == nil {
		for _, link := range links {
			if dir, err := os.Readlink(link); err == nil {
				return "it belongs to a local cluster: pinfold-local down --data-dir " + filepath.Dir(dir)
			}
		}
	}
	return "stop that kubelet and remove its cgroups (children first, with rmdir)"
}
