//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pinfold.dev/pinfold/linux/cgroup"
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
	naming, err := fs.Naming(q.cgroupRoot)
	if err == nil { // without a kubelet nothing has a name
		names.learn(naming)
	}
	if err != nil && len(q.pods) > 0 {
		return nil, fmt.Errorf("--pod %s: %w; name its control groups instead", q.pods[0], err)
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
		found, err := podTargets(fs, naming, q.root, pod, names)
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
		group, err := groupOf(fs, q.root, arg)
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
		group, err := groupOf(fs, q.root, dir)
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
