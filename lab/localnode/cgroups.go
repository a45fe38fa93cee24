package localnode

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/linux/cgroup"
)

// podsGroup is the cgroup, in every hierarchy, below which the kubelet puts all pods.
const podsGroup = "kubepods"

// containerGroups returns the directories of the cgroups of the containers below pods. The kubelet
// and the runtime name them pod<UID>/<container ID>.
func containerGroups(pods string, containers []string) ([]string, error) {
	dirs, err := cgroup.DirsBelow(pods)
	if err != nil {
		return nil, fmt.Errorf("list cgroups: %w", err)
	}
	return slices.DeleteFunc(dirs, func(dir string) bool { return !slices.Contains(containers, filepath.Base(dir)) }), nil
}

// removeContainers removes the cgroups of the node's containers below pods. It returns a cgroup there
// that shows that another kubelet has containers, "" if there is none.
func removeContainers(ctx context.Context, pods string, containers []string) (others string, err error) {
	groups, err := containerGroups(pods, containers)
	if err != nil {
		return "", err
	}
	for _, group := range groups {
		if err := cgroup.RemoveDir(ctx, group); err != nil {
			return "", err
		}
		_ = unix.Rmdir(filepath.Dir(group)) // of the pod; fails while it has other containers
	}
	dirs, err := cgroup.DirsBelow(pods)
	if err != nil {
		return "", fmt.Errorf("list cgroups: %w", err)
	}
	for _, dir := range dirs {
		pids, err := cgroup.ProcessesIn(dir)
		if err != nil {
			return others, err
		}
		// Process 0 belongs to another PID namespace, so it is not a zombie of this node.
		running := slices.ContainsFunc(pids, func(pid int) bool { return pid == 0 || !isZombie(pid) })
		if running || strings.HasPrefix(filepath.Base(filepath.Dir(dir)), "pod") {
			others = dir
		}
	}
	return others, nil
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
