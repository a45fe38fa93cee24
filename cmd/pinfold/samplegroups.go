//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/sampler"
)

// target is a group to sample.
type target struct {
	group string // path in the hierarchy
	name  string // NAMESPACE/POD/CONTAINER, "" when not known
}

// targets are the groups that the command line names, each once. Groups that match a
// pattern and cannot be sampled are left out with a message.
func (q *sampling) targets(fs *cgroup.FS, args []string, stderr io.Writer) ([]target, error) {
	names := newContainerNames(q.root)
	if naming, err := fs.Naming(""); err == nil { // without a kubelet nothing has a name
		names.learn(naming)
	}
	var all []target
	for _, arg := range args {
		found, err := q.groups(fs, arg, stderr)
		if err != nil {
			return nil, err
		}
		for _, group := range found {
			all = append(all, target{group, names.known(group)})
		}
	}
	for _, pod := range q.pods {
		found, err := podTargets(fs, q.root, pod, names)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	var once []target
	for _, t := range all {
		if !slices.ContainsFunc(once, func(o target) bool { return o.group == t.group }) {
			once = append(once, t)
		}
	}
	return once, nil
}

// groups finds the groups of one argument.
func (q *sampling) groups(fs *cgroup.FS, arg string, stderr io.Writer) ([]string, error) {
	if !strings.ContainsAny(arg, `*?[\`) {
		group, err := q.groupOf(fs, arg)
		if err != nil {
			return nil, err
		}
		return []string{group}, checkGroup(fs, arg, group)
	}
	dirs, err := q.match(fs, arg)
	if err != nil {
		return nil, err
	}
	var found []string
	var refused error
	for _, dir := range dirs {
		group, err := q.groupOf(fs, dir)
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

// match returns the directories that match a pattern of a path in the hierarchy or of a
// directory.
func (q *sampling) match(fs *cgroup.FS, pattern string) ([]string, error) {
	var dirs []string
	for _, full := range []string{fs.Dir(cgroup.CPU, "/") + "/" + pattern, filepath.Join(q.root, pattern)} {
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

// groupOf returns the path in the hierarchy of what is one, or the directory of a group.
func (q *sampling) groupOf(fs *cgroup.FS, arg string) (string, error) {
	for _, dir := range []string{arg, filepath.Join(q.root, arg)} {
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
	return filepath.Clean("/" + arg), nil
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
