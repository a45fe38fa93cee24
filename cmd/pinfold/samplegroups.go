//go:build linux

package main

import (
	"fmt"
	"io"
	"slices"

	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/kubepods"
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
	naming, err := kubepods.Find(fs, q.cgroupRoot)
	if err == nil { // without a kubelet nothing has a name
		names.learn(naming)
	}
	if err != nil && len(q.pods) > 0 {
		return nil, fmt.Errorf("--pod %s: %w; name its control groups instead", q.pods[0], err)
	}
	var all []target
	for _, arg := range args {
		found, err := matchingGroups(fs, q.root, arg, stderr)
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
