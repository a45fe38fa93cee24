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
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if gone(err) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, field := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				return fmt.Errorf("%s: %w", filepath.Join(dir, "cgroup.procs"), err)
			}
			if pid > 0 { // 0: of another namespace, none of ours
				pids = append(pids, pid)
			}
		}
		return nil
	})
	return pids, err
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

// readDelegations returns the controllers that each root passes on. Version 1 has no
// such file.
func readDelegations(roots []string) ([]setting, error) {
	var settings []setting
	for _, root := range roots {
		path := filepath.Join(root, delegationName)
		value, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the controllers of a hierarchy: %w", err)
		}
		settings = append(settings, setting{Path: path, Value: string(value)})
	}
	return settings, nil
}

// writeDelegations withdraws the controllers that have come since.
func writeDelegations(settings []setting) error {
	var failed []error
	for _, s := range settings {
		value, err := os.ReadFile(s.Path)
		if err != nil {
			failed = append(failed, fmt.Errorf("put back the controllers of a hierarchy: %w", err))
			continue
		}
		before := strings.Fields(s.Value)
		for _, controller := range strings.Fields(string(value)) {
			if slices.Contains(before, controller) {
				continue
			}
			if err := os.WriteFile(s.Path, []byte("-"+controller), 0); err != nil {
				failed = append(failed, fmt.Errorf("put back the controllers of a hierarchy: %w", err))
			}
		}
	}
	return errors.Join(failed...)
}
