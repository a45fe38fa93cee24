package localnode

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pinfold.dev/pinfold/lab/images"
)

// The node's programs.
const (
	kubeletProgram    = "kubelet"
	containerdProgram = "containerd"
	shimProgram       = "containerd-shim-runc-v2"
	runcProgram       = "runc"
)

// programs returns the names below the directory of the programs.
func programs() []string {
	names := []string{kubeletProgram, containerdProgram, shimProgram, runcProgram, networkPlugin, addressPlugin}
	for _, name := range images.Programs() {
		names = append(names, filepath.Join(imagesDir, images.Path(name)))
	}
	return names
}

// imagesDir is below the directory of the programs.
const imagesDir = "images"

// Missing returns an error that names the programs that a directory lacks.
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

// ErrNotRoot says that this machine cannot be a node for who asks.
var ErrNotRoot = errors.New("a real node needs root: it makes control groups, mounts and network namespaces; " +
	"run this with sudo, or without --node for simulated nodes only")

// checkMachine returns why this machine cannot be a node.
func checkMachine(binaries string) error {
	if os.Geteuid() != 0 {
		return ErrNotRoot
	}
	if err := Missing(binaries); err != nil {
		return err
	}
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	if err := checkHierarchies(roots); err != nil {
		return err
	}
	return checkOutside(host())
}

// checkHierarchies wants control groups, and none of a kubelet's.
func checkHierarchies(hierarchies []string) error {
	if len(hierarchies) == 0 {
		return errors.New("no control groups are mounted, expected them below /sys/fs/cgroup: a kubelet cannot run here")
	}
	for _, root := range hierarchies {
		for _, name := range []string{podsGroup, podsGroup + ".slice"} {
			group := filepath.Join(root, name)
			if _, err := os.Stat(group); err == nil {
				return fmt.Errorf("%s exists: a kubelet runs on this machine, or left it behind; %s", group, whatToDo())
			}
		}
	}
	return nil
}

// whatToDo says how to get rid of a kubelet's groups: those of another local cluster
// by its end.
func whatToDo() string {
	if links, err := filepath.Glob(filepath.Join(filepath.Dir(layoutOf("").run), runPrefix+"*", dirLink)); err == nil {
		for _, link := range links {
			if dir, err := os.Readlink(link); err == nil {
				return "it is that of a local cluster: pinfold-local down --data-dir " + filepath.Dir(dir)
			}
		}
	}
	return "end that kubelet and remove its groups (leaves first, with rmdir)"
}

// isProgram tells whether a path is that of one of the node's long-lived programs.
func isProgram(path string) bool {
	names := []string{kubeletProgram, containerdProgram, shimProgram, runcProgram, Agent}
	return slices.Contains(names, filepath.Base(strings.TrimSuffix(path, " (deleted)")))
}
