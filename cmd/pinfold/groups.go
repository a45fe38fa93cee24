//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/sampler"
)

// groupOf returns the path in the hierarchy of what is one, or the directory of a group on a
// machine whose root directory is given.
func groupOf(fs *cgroup.FS, root, arg string) (string, error) {
	for _, dir := range []string{arg, filepath.Join(root, arg)} {
		real, err := filepath.EvalSymlinks(dir)
		if err != nil {
			continue
		}
		if real, err = filepath.Abs(real); err != nil {
			return "", err
		}
		for _, h := range fs.Hierarchies() {
			mount, err := filepath.EvalSymlinks(h.Mount)
			if err != nil {
				continue
			}
			if rest, ok := strings.CutPrefix(real+"/", mount+"/"); ok {
				return filepath.Clean("/" + rest), nil
			}
		}
	}
	if info, err := os.Stat(arg); err == nil && info.IsDir() && !filepath.IsAbs(arg) {
		return "", notGroup(fs, arg)
	}
	return fs.GroupAt(arg), nil
}

// notGroup says that a directory is none of a control group.
func notGroup(fs *cgroup.FS, dir string) error {
	return fmt.Errorf("%s is a directory, and no control group: those of the CPU controller are below %s", dir, fs.Dir(cgroup.CPU, "/"))
}

// checkGroup says why a group cannot be sampled, and what could be.
func checkGroup(fs *cgroup.FS, arg, group string) error {
	err := sampler.Check(fs, group)
	if errors.Is(err, cgroup.ErrGone) {
		if info, statErr := os.Stat(arg); statErr == nil && info.IsDir() {
			return notGroup(fs, arg)
		}
		return fmt.Errorf("%w: give its path below %s", err, fs.Dir(cgroup.CPU, "/"))
	}
	return err
}

// matchingGroups resolves one argument, a path or a pattern of one, to groups on the machine
// whose root directory is given. Groups that match and cannot be sampled are left out with a
// message.
func matchingGroups(fs *cgroup.FS, root, arg string, stderr io.Writer) ([]string, error) {
	if !strings.ContainsAny(arg, `*?[\`) {
		group, err := groupOf(fs, root, arg)
		if err != nil {
			return nil, err
		}
		return []string{group}, checkGroup(fs, arg, group)
	}
	dirs, err := matchingDirs(fs, root, arg)
	if err != nil {
		return nil, err
	}
	var found []string
	var refused error
	for _, dir := range dirs {
		group, err := groupOf(fs, root, dir)
		if err == nil {
			err = checkGroup(fs, dir, group)
		}
		if err != nil {
			refused = err
			fmt.Fprintln(stderr, "pinfold: left out:", printable(err.Error()))
			continue
		}
		found = append(found, group)
	}
	switch {
	case len(found) > 0:
		return found, nil
	case refused != nil:
		return nil, fmt.Errorf("no control group that matches %q can be sampled", arg)
	}
	return nil, fmt.Errorf("no control group matches %q below %s: is it in quotes, and with a * for each level?", arg, fs.Dir(cgroup.CPU, "/"))
}

// matchingDirs returns the directories that match a pattern of a path in the hierarchy or of a
// directory.
func matchingDirs(fs *cgroup.FS, root, pattern string) ([]string, error) {
	var dirs []string
	for _, full := range []string{fs.Dir(cgroup.CPU, "/") + "/" + pattern, filepath.Join(root, pattern)} {
		names, err := filepath.Glob(full)
		if err != nil {
			return nil, fmt.Errorf("%q: %w: write [] and \\ as shells do", pattern, err)
		}
		for _, name := range names {
			if info, err := os.Stat(name); err == nil && info.IsDir() {
				dirs = append(dirs, name)
			}
		}
		if len(dirs) > 0 {
			break
		}
	}
	return dirs, nil
}
