//go:build linux

package main

import (
	"errors"
	"fmt"
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
