package cgrouptree

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/internal/kernfile"
)

// ErrNoParent reports that there is no group in which this process may create groups.
var ErrNoParent = errors.New("no control group in which this process may create others")

// Parents are the groups in which this process may create groups.
type Parents struct {
	Groups map[cgroup.Controller]string // for [cgroup.FS.Within]
	// MustLeave is true if this process is alone in the version 2 group and must leave it before
	// the group can delegate controllers: see [LeaveRoot].
	MustLeave bool
}

// FindParents finds the groups in which this process may create groups with the controllers.
//
// On version 1 these are its own groups. On version 2 a group that delegates controllers must not
// have processes, unless it is the root. So FindParents returns the nearest group, from the
// process's own one upwards, that has the controllers, is writable, and has no process or only this
// one. The error wraps ErrNoParent and says what to do.
func FindParents(fs *cgroup.FS, controllers ...cgroup.Controller) (Parents, error) {
	if err := fs.Require(controllers...); err != nil {
		return Parents{}, err
	}
	groups, err := ownGroups(fs)
	if err != nil {
		return Parents{}, err
	}
	parents := Parents{Groups: groups}
	for _, h := range hierarchiesOf(fs, controllers) {
		if h.ReadOnly {
			return Parents{}, &cgroup.HierarchyError{Controller: h.controllers[0], Where: h.Mount, Problem: cgroup.ErrReadOnly,
				Do: "mount it read-write for this process"}
		}
		own := parents.Groups[h.controllers[0]]
		if h.Version == cgroup.V1 {
			if err := checkWritableDir(filepath.Join(h.Mount, own)); err != nil {
				return Parents{}, fmt.Errorf("%w: %w: run as root, or let root create a control group for this user (with chown) and start inside it", ErrNoParent, err)
			}
			continue
		}
		root, alone, err := h.nearest(own)
		if err != nil {
			return Parents{}, err
		}
		for c := range parents.Groups {
			if fs.Hierarchy(c).Mount == h.Mount {
				parents.Groups[c] = root
			}
		}
		parents.MustLeave = parents.MustLeave || alone
	}
	return parents, nil
}

// ownGroups returns the group of this process in each hierarchy.
func ownGroups(fs *cgroup.FS) (map[cgroup.Controller]string, error) {
	groups := map[cgroup.Controller]string{}
	for _, c := range []cgroup.Controller{cgroup.CPU, cgroup.CPUSet, cgroup.CPUAcct} {
		if fs.Hierarchy(c).Mount == "" {
			continue // version 2 has no cpuacct
		}
		group, err := Own(fs, c)
		if err != nil {
			return nil, err
		}
		groups[c] = group
	}
	return groups, nil
}

// Own returns the group of this process in a controller's hierarchy. In a container with a cgroup
// namespace of its own, the kernel does not name groups above the container's: Own then looks for
// the group of version 2 that lists this process.
func Own(fs *cgroup.FS, c cgroup.Controller) (string, error) {
	return groupOf(fs, c, "self", os.Getpid())
}

// Of is Own for any process.
func Of(fs *cgroup.FS, c cgroup.Controller, pid int) (string, error) {
	return groupOf(fs, c, strconv.Itoa(pid), pid)
}

func groupOf(fs *cgroup.FS, c cgroup.Controller, proc string, pid int) (string, error) {
	name := filepath.Join(fs.Root(), "proc", proc, "cgroup")
	f, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("find the control group of process %d: %w", pid, err)
	}
	defer f.Close()
	h := fs.Hierarchy(c)
	if len(h.Controllers) > 0 && !slices.Contains(h.Controllers, string(c)) {
		c = cgroup.Controller(h.Controllers[0]) // by which version 1 names the hierarchy that stands in
	}
	own, err := parseOwn(f, h.Version, c)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	group, ok := h.Below(own)
	if !ok && h.Version == cgroup.V2 {
		group, ok, err = find(h, pid)
	}
	if err != nil {
		return "", fmt.Errorf("find the control group of process %d: %w", pid, err)
	}
	if !ok {
		return "", fmt.Errorf("the control group %s of process %d is not within %s, where group %s of the hierarchy is mounted: mount all of it",
			own, pid, h.Mount, h.Part)
	}
	return group, nil
}

// parseOwn parses /proc/PID/cgroup: lines of HIERARCHY:CONTROLLERS:PATH. Version 2 has number 0 and
// lists no controllers. A path that begins with "/.." is outside the process's cgroup namespace.
func parseOwn(r io.Reader, v cgroup.Version, c cgroup.Controller) (string, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		number, rest, _ := strings.Cut(lines.Text(), ":")
		controllers, group, ok := strings.Cut(rest, ":")
		if !ok || !strings.HasPrefix(group, "/") {
			return "", fmt.Errorf("%q is not a number, controllers and a path", lines.Text())
		}
		if v == cgroup.V2 && number == "0" || v == cgroup.V1 && slices.Contains(strings.Split(controllers, ","), string(c)) {
			return group, nil
		}
	}
	if err := lines.Err(); err != nil {
		return "", err
	}
	return "", fmt.Errorf("no line for version %d with the controller %s", v, c)
}

// find returns the group of version 2 that lists a process.
func find(h cgroup.Hierarchy, pid int) (group string, ok bool, err error) {
	dirs, err := DirsBelow(h.Mount)
	errs := []error{err}
	for _, dir := range dirs {
		pids, err := ProcessesIn(dir)
		if slices.Contains(pids, pid) {
			return path.Join("/", strings.TrimPrefix(dir, h.Mount)), true, nil
		}
		errs = append(errs, err)
	}
	return "", false, errors.Join(errs...)
}

// checkWritableDir checks that this process may create groups in a directory and move from there to
// them.
func checkWritableDir(dir string) error {
	for _, name := range []string{dir, filepath.Join(dir, string(cgroup.Procs))} {
		if err := unix.Access(name, unix.W_OK); err != nil {
			return &os.PathError{Op: "write", Path: name, Err: err}
		}
	}
	return nil
}

// nearest finds the nearest usable group in a hierarchy of version 2. See [FindParents].
func (h selected) nearest(own string) (group string, alone bool, err error) {
	var reasons []string
	for at := own; ; at = path.Dir(at) {
		alone, reason := h.whyUnusable(filepath.Join(h.Mount, at), at == own)
		if reason == "" {
			return at, alone, nil
		}
		reasons = append(reasons, at+" "+reason)
		if at == "/" {
			break
		}
	}
	advice := "start the command in a group of its own: systemd-run --scope -p Delegate=yes -- COMMAND"
	if os.Geteuid() != 0 {
		advice = "run as root, or in a group of your own: systemd-run --user --scope -p Delegate=yes -- COMMAND"
		if slices.Contains(h.controllers, cgroup.CPUSet) {
			advice += " (for cpuset root must have added Delegate=cpu cpuset to user@.service, in its section Service)"
		}
	}
	return "", false, fmt.Errorf("%w: %s: %s", ErrNoParent, strings.Join(reasons, ", "), advice)
}

// whyUnusable returns why this process cannot create groups in a group of version 2, or "" if it
// can. Alone is true if this process is the only one in the group.
func (h selected) whyUnusable(dir string, own bool) (alone bool, reason string) {
	has, err := kernfile.Words(filepath.Join(dir, cgroup.ControllersFile))
	if err != nil {
		return false, "cannot be read"
	}
	for _, c := range h.controllers {
		if !slices.Contains(has, string(c)) {
			return false, "does not have the controller " + string(c)
		}
	}
	if checkWritableDir(dir) != nil {
		return false, "is not writable by this user"
	}
	kind, err := kernfile.Words(filepath.Join(dir, cgroup.TypeFile))
	if errors.Is(err, os.ErrNotExist) {
		return false, "" // the root may have processes
	}
	if err != nil || len(kind) != 1 || kind[0] != "domain" {
		return false, "is threaded"
	}
	if unix.Access(filepath.Join(dir, cgroup.SubtreeControl), unix.W_OK) != nil {
		return false, "is not writable by this user"
	}
	pids, err := kernfile.Words(filepath.Join(dir, string(cgroup.Procs)))
	switch {
	case err != nil:
		return false, "cannot be read"
	case len(pids) == 0:
		return false, ""
	case own && len(pids) == 1 && pids[0] == strconv.Itoa(os.Getpid()):
		return true, ""
	}
	return false, "has processes of its own"
}

// LeaveRoot moves this process from the root "/" (see [cgroup.FS.Within]) of version 2 to a new
// group in it, so that the root can delegate controllers.
func LeaveRoot(fs *cgroup.FS, group string) error {
	dir := fs.Dir(cgroup.CPU, group)
	if err := os.Mkdir(dir, directoryMode); err != nil {
		return fmt.Errorf("leave the root group: %w", err)
	}
	if err := kernfile.Write(filepath.Join(dir, string(cgroup.Procs)), "0"); err != nil {
		return errors.Join(fmt.Errorf("leave the root group: %w", err), os.Remove(dir))
	}
	return nil
}

// ReturnToRoot undoes LeaveRoot if no other group below the root is left and this process is the
// last one in it.
func ReturnToRoot(ctx context.Context, fs *cgroup.FS, group string) error {
	root := fs.Dir(cgroup.CPU, "/")
	delegated, err := kernfile.Words(filepath.Join(root, cgroup.SubtreeControl))
	if err != nil {
		return fmt.Errorf("return to the root group: %w", err)
	}
	for _, c := range delegated {
		if err := kernfile.Write(filepath.Join(root, cgroup.SubtreeControl), "-"+c); err != nil {
			return fmt.Errorf("return to the root group: stop delegating %s: %w", c, err)
		}
	}
	if err := kernfile.Write(filepath.Join(root, string(cgroup.Procs)), "0"); err != nil {
		return fmt.Errorf("return to the root group: %w", err)
	}
	return Remove(ctx, fs, group, cgroup.CPU)
}
