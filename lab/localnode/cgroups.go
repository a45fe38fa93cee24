package localnode

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// podsGroup is the group, in every hierarchy, below which the kubelet puts all pods.
const podsGroup = "kubepods"

// groupProcesses returns the processes of a group and of all below it.
func groupProcesses(group string) ([]int, error) {
	var pids []int
	err := walkGroups(group, func(dir string) error {
		in, err := processesIn(dir)
		pids = append(pids, in...)
		return err
	})
	return pids, err
}

// processesIn returns the processes of a group, zombies left out.
func processesIn(group string) ([]int, error) {
	text, err := os.ReadFile(filepath.Join(group, "cgroup.procs"))
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, field := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(group, "cgroup.procs"), err)
		}
		if pid == 0 || !isZombie(pid) { // 0: of another namespace, none of ours
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// removeGroups removes a group and all below it, leaves first, waiting for the
// kernel to forget the processes that were killed.
func removeGroups(ctx context.Context, group string) error {
	var groups []string
	err := walkGroups(group, func(dir string) error {
		groups = append(groups, dir)
		return nil
	})
	if err != nil {
		return err
	}
	for _, dir := range slices.Backward(groups) {
		err := retry(ctx, func() error {
			if err := unix.Rmdir(dir); err != nil && !gone(err) {
				return fmt.Errorf("remove control group %s: %w", dir, err)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// walkGroups visits a group and all below it, parents first. Groups may come and go
// meanwhile, the first one included.
func walkGroups(group string, visit func(dir string) error) error {
	err := filepath.WalkDir(group, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case gone(err):
			return nil
		case err != nil:
			return err
		case entry.IsDir():
			return visit(path)
		default:
			return nil
		}
	})
	if err != nil {
		return fmt.Errorf("walk control groups: %w", err)
	}
	return nil
}

// gone tells whether an error says that a group, or a process, is not there any more.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ESRCH)
}

// The version 2 hierarchy passes a controller on to the groups of its root only when
// the root says so, and the kubelet makes it say so.
const delegationName = "cgroup.subtree_control"

// readControllers returns the controllers that each root passes on. Version 1 has no
// such file.
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

// withdrawControllers withdraws the controllers that have come since.
func withdrawControllers(before map[string][]string) error {
	var failed []error
	for root, had := range before {
		path := filepath.Join(root, delegationName)
		text, err := os.ReadFile(path)
		if err != nil {
			failed = append(failed, fmt.Errorf("put back the controllers of a hierarchy: %w", err))
			continue
		}
		for _, controller := range strings.Fields(string(text)) {
			if slices.Contains(had, controller) {
				continue
			}
			if err := os.WriteFile(path, []byte("-"+controller), 0); err != nil {
				failed = append(failed, fmt.Errorf("put back the controllers of a hierarchy: %w", err))
			}
		}
	}
	return errors.Join(failed...)
}

// containerGroups returns the groups of the containers below a group. The kubelet and the
// runtime name them pod<UID>/<container's ID>.
func containerGroups(group string, containers []string) ([]string, error) {
	var groups []string
	err := walkGroups(group, func(dir string) error {
		if slices.Contains(containers, filepath.Base(dir)) {
			groups = append(groups, dir)
		}
		return nil
	})
	return groups, err
}

// removeContainers removes the groups of the node's containers below the group of all
// pods, and returns a sign that others have containers there, "" when there is none.
func removeContainers(ctx context.Context, pods string, containers []string) (others string, err error) {
	groups, err := containerGroups(pods, containers)
	if err != nil {
		return "", err
	}
	for _, group := range groups {
		if err := removeGroups(ctx, group); err != nil {
			return "", err
		}
		_ = unix.Rmdir(filepath.Dir(group)) // stays while it has other containers
	}
	err = walkGroups(pods, func(dir string) error {
		pids, err := processesIn(dir)
		if len(pids) > 0 || strings.HasPrefix(filepath.Base(filepath.Dir(dir)), "pod") {
			others = dir
		}
		return err
	})
	return others, err
}
