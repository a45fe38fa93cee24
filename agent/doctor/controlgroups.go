package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/qos"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/kubepods"
	"pinfold.dev/pinfold/linux/systemd"
)

// controlGroups checks the cgroup hierarchies and the kubelet's cgroups.
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

// parts returns the errors that were joined into err.
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
	reported := map[string]bool{} // one mount may have both controllers
	for _, err := range parts(err) {
		where, problem, do := "", err, "run as root"
		var h *cgroup.HierarchyError
		if errors.As(err, &h) {
			where, problem, do = x.onHost(h.Where)+": ", h.Problem, h.Do
		}
		if found := where + problem.Error(); !reported[found] {
			reported[found] = true
			x.add("writable", Problem, found, do)
		}
	}
}

// permitted returns an error for each hierarchy whose files this user may not write. It asks about
// a file: the directory is read-only for root without capabilities on version 2.
func (x *examination) permitted() error {
	var errs []error
	for _, c := range []cgroup.Controller{cgroup.CPU, cgroup.CPUSet} {
		h := x.groups.Hierarchy(c)
		if err := unix.Access(filepath.Join(h.Mount, string(cgroup.Procs)), unix.W_OK); err != nil {
			errs = append(errs, &cgroup.HierarchyError{Controller: c, Where: h.Mount, Problem: fmt.Errorf("this user may not write here: %w", err), Do: "run as root"})
		}
	}
	return errors.Join(errs...)
}

func (x *examination) kubeletGroups() {
	naming, err := kubepods.Locate(x.groups, x.CgroupRoot)
	switch {
	case errors.Is(err, kubepods.ErrNotFound):
		x.add("kubelet's groups", Problem, "none found", "start the kubelet; if it runs with --cgroup-root, use the same option here")
		return
	case errors.Is(err, kubepods.ErrSeveral):
		x.add("kubelet's groups", Problem, err.Error(), "give the kubelet's with --cgroup-root")
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
	x.add("kubelet's groups", OK, fmt.Sprintf("%s, driver %s, %s", naming.Tier(qos.Guaranteed), naming.Driver, quantity.Count(len(pods), "pod")), "")
	switch {
	case naming.Driver != kubepods.Systemd:
	case systemd.Running(x.Root):
		x.add("cgroup driver", OK, "systemd can be told of the settings", "")
	default:
		x.add("cgroup driver", Problem, fmt.Sprintf("systemd cannot be reached at %s: when a unit starts after a daemon-reload, it undoes settings", x.onHost("/"+systemd.Socket)),
			"mount the host's /run/systemd into the agent's container, as deploy/manifests does")
	}
}

// findSample returns a cgroup with all files: the kubelet's if possible, else any child of the
// root, else the root, which lacks some files on version 2.
func (x *examination) findSample() string {
	if x.naming.Driver != 0 {
		return x.naming.Tier(qos.Guaranteed)
	}
	entries, err := os.ReadDir(x.groups.Dir(cgroup.CPU, "/"))
	if err != nil {
		return ""
	}
	var groups []string
	for _, e := range entries {
		if e.IsDir() {
			groups = append(groups, "/"+e.Name())
		}
	}
	for _, group := range append(groups, "/") {
		if _, err := x.groups.Read(group); err == nil {
			return group
		}
	}
	return ""
}

// onHost replaces paths below Root in a text by the host's paths.
func (x *examination) onHost(p string) string {
	if root := strings.TrimSuffix(x.Root, "/"); root != "" {
		p = strings.ReplaceAll(p, root+"/", "/")
	}
	return p
}
