package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/kubepods"
)

// controlGroups finds the hierarchies and the kubelet's groups in them.
func (x *examination) controlGroups(context.Context) {
	groups, err := cgroup.Open(x.Root)
	if err != nil {
		for _, err := range parts(err) {
			var h *cgroup.HierarchyError
			if errors.As(err, &h) {
				x.add("hierarchy of "+string(h.Controller), Problem, fmt.Sprintf("%s: %v", x.onHost(h.Where), h.Problem), h.Do)
				continue
			}
			x.add("hierarchies", Problem, err.Error(), "give --host-root the directory at which the host's root is mounted")
		}
		return
	}
	x.groups = groups
	for _, c := range []cgroup.Controller{cgroup.CPU, cgroup.CPUSet} {
		h := groups.Hierarchy(c)
		x.add("hierarchy of "+string(c), OK, fmt.Sprintf("version %d at %s", h.Version, x.onHost(h.Mount)), "")
	}
	x.writable()
	x.kubeletGroups()
	x.sample = x.findSample()
}

// parts takes joined errors apart.
func parts(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

func (x *examination) writable() {
	err := cmp.Or(x.groups.CheckWritable(), x.permitted())
	if err == nil {
		x.add("writable", OK, "mounted read-write", "")
		return
	}
	told := map[string]bool{} // one mount may have both controllers
	for _, err := range parts(err) {
		where, problem, do := "", err, "run as root"
		var h *cgroup.HierarchyError
		if errors.As(err, &h) {
			where, problem, do = x.onHost(h.Where)+": ", h.Problem, h.Do
		}
		if found := where + problem.Error(); !told[found] {
			told[found] = true
			x.add("writable", Problem, found, do)
		}
	}
}

// permitted returns an error for each hierarchy in which this user may not write.
func (x *examination) permitted() error {
	var errs []error
	for _, c := range []cgroup.Controller{cgroup.CPU, cgroup.CPUSet} {
		h := x.groups.Hierarchy(c)
		if err := unix.Access(h.Mount, unix.W_OK); err != nil {
			errs = append(errs, &cgroup.HierarchyError{Controller: c, Where: h.Mount, Problem: fmt.Errorf("this user may not write here: %w", err), Do: "run as root"})
		}
	}
	return errors.Join(errs...)
}

func (x *examination) kubeletGroups() {
	naming, err := kubepods.Find(x.groups, x.CgroupRoot)
	switch {
	case errors.Is(err, kubepods.ErrNotFound):
		x.add("kubelet's groups", Problem, "there are none", "start the kubelet; where it runs with --cgroup-root, give the same here")
		return
	case err != nil:
		x.add("kubelet's groups", Problem, err.Error(), "remove the groups of the driver that is not used, or restart the node")
		return
	}
	x.naming = naming
	pods, err := naming.Pods(x.groups)
	if err != nil {
		x.add("kubelet's groups", Problem, err.Error(), "run as root")
		return
	}
	x.add("kubelet's groups", OK, fmt.Sprintf("%s, driver %s, %s", naming.Tier(nodeplan.Guaranteed), naming.Driver, quantity.Count(len(pods), "pod")), "")
	x.unknownGroups(pods)
	if naming.Driver == kubepods.Systemd {
		x.add("cgroup driver", Note, "systemd writes its own values back at every daemon-reload",
			"nothing: the agent restores its settings at once; expect them in pinfold_foreign_writes_undone_total")
	}
}

// unknownGroups looks for groups in pods' whose names are no container's.
func (x *examination) unknownGroups(pods []kubepods.Pod) {
	var others []string
	for _, p := range pods {
		others = append(others, p.Others...)
	}
	if len(others) == 0 {
		x.add("groups in pods", OK, "all are containers'", "")
		return
	}
	x.add("groups in pods", Note, fmt.Sprintf("%s with a name that is no container's, %s for one", quantity.Count(len(others), "group"), others[0]),
		"nothing for CRI-O's monitors (conmon); another runtime's groups (kata_*) are kept to the CPUs of their pod, but the quota of each "+
			"container in them is not enforced")
}

// findSample looks for a group that has all files: best one of the kubelet's, and the
// root, which has none on version 2, last.
func (x *examination) findSample() string {
	if x.naming.Driver != 0 {
		return x.naming.Tier(nodeplan.Guaranteed)
	}
	entries, err := os.ReadDir(x.groups.Dir(cgroup.CPU, "/"))
	if err != nil {
		return ""
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	for _, name := range append(names, "") {
		if _, err := x.groups.Read("/" + name); err == nil {
			return "/" + name
		}
	}
	return ""
}

// onHost is a path as the host has it.
func (x *examination) onHost(p string) string {
	if root := strings.TrimSuffix(x.Root, "/"); root != "" {
		p = strings.ReplaceAll(p, root+"/", "/")
	}
	return p
}
