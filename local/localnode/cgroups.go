package localnode

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/qos"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
	"pinfold.dev/pinfold/linux/kubepods"
	"pinfold.dev/pinfold/linux/systemd"
)

// naming locates the groups of pods and containers in every cgroup hierarchy.
type naming struct{ kubepods.Naming }

// namings returns those of both cgroup drivers.
func namings() (all []naming) {
	for _, d := range kubepods.Drivers() {
		all = append(all, naming{kubepods.Naming{Driver: d}})
	}
	return all
}

// top returns the directory of the group, in the hierarchy with the given root, below which the
// kubelet puts all pods.
func (n naming) top(root string) string { return filepath.Join(root, n.Tier(qos.Guaranteed)) }

// containerGroups returns the directories of the cgroups of the containers, which are given by ID.
func (n naming) containerGroups(root string, containers []string) ([]string, error) {
	dirs, err := cgrouptree.DirsBelow(n.top(root))
	if err != nil {
		return nil, fmt.Errorf("list cgroups: %w", err)
	}
	return slices.DeleteFunc(dirs, func(dir string) bool {
		place, _ := n.Parse(strings.TrimPrefix(dir, root))
		return !slices.Contains(containers, place.Container)
	}), nil
}

// removeContainers removes the cgroups of the node's containers. If a cgroup of another kubelet's
// container is left, others is its directory.
func (n naming) removeContainers(ctx context.Context, root string, containers []string) (others string, err error) {
	groups, err := n.containerGroups(root, containers)
	if err != nil {
		return "", err
	}
	for _, group := range groups {
		if err := cgrouptree.RemoveDir(ctx, group); err != nil {
			return "", err
		}
		_ = unix.Rmdir(filepath.Dir(group)) // of the pod; fails while it has other containers
	}
	dirs, err := cgrouptree.DirsBelow(n.top(root))
	if err != nil {
		return "", fmt.Errorf("list cgroups: %w", err)
	}
	for _, dir := range dirs {
		pids, err := cgrouptree.ProcessesIn(dir)
		if err != nil {
			return others, err
		}
		// Process 0 belongs to another PID namespace, so it is not a zombie of this node.
		running := slices.ContainsFunc(pids, func(pid int) bool { return pid == 0 || !isZombie(pid) })
		if running || n.isInPod(strings.TrimPrefix(dir, root)) {
			others = dir
		}
	}
	return others, nil
}

// isInPod reports whether a group is directly in that of a pod, whatever its name.
func (n naming) isInPod(group string) bool {
	place, ok := n.Parse(path.Dir(group))
	return ok && place.PodUID != "" && place.Container == ""
}

// stopSlice makes systemd forget the kubelet's slices. Their groups must be those of this node.
func stopSlice(ctx context.Context) error {
	units, err := systemd.Connect(ctx, "/")
	if err != nil {
		return err
	}
	defer units.Close()
	return units.Stop(ctx, path.Base(kubepods.Naming{Driver: kubepods.Systemd}.Tier(qos.Guaranteed)))
}

// delegationName is the file by which a version 2 root passes controllers on to its groups. The
// kubelet adds controllers to it.
const delegationName = "cgroup.subtree_control"

// readControllers returns the controllers that each root passes on. Version 1 has no such file.
func readControllers(roots []string) (map[string][]string, error) {
	controllers := map[string][]string{}
	for _, root := range roots {
		text, err := os.ReadFile(filepath.Join(root, delegationName))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the controllers of a hierarchy: %w", err)
		}
		controllers[root] = strings.Fields(string(text))
	}
	return controllers, nil
}

// restoreControllers removes the controllers that were added since readControllers.
func restoreControllers(before map[string][]string) error {
	now, err := readControllers(slices.Collect(maps.Keys(before)))
	failed := []error{err}
	for root, controllers := range now {
		for _, controller := range controllers {
			if slices.Contains(before[root], controller) {
				continue
			}
			if err := os.WriteFile(filepath.Join(root, delegationName), []byte("-"+controller), 0); err != nil {
				failed = append(failed, fmt.Errorf("restore the controllers of a hierarchy: %w", err))
			}
		}
	}
	return errors.Join(failed...)
}
