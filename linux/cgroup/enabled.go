package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"pinfold.dev/pinfold/linux/cgroup/internal/kernfile"
)

// missingError explains why a group has no such file.
func (fs *FS) missingError(group string, f File) error {
	c := f.Controller()
	h := fs.byController[c]
	dir := fs.Dir(c, group)
	procs, err := os.Stat(filepath.Join(h.Mount, string(Procs)))
	switch {
	case err != nil || !procs.Mode().IsRegular():
		return &HierarchyError{c, h.Mount, ErrNoHierarchy, "it was unmounted: mount it again"}
	case !isDir(dir):
		return fmt.Errorf("%s: %w", dir, ErrGone)
	case f != Threads && f != Procs && f != CPUStat:
		if err := fs.CheckEnabled(group, c); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s: %w", dir, f.missing())
}

// CheckEnabled returns an error that wraps ErrNotEnabled, and says what to do, for a group of
// version 2 without a controller.
func (fs *FS) CheckEnabled(group string, c Controller) error {
	dir := fs.Dir(c, group)
	var lacks *HierarchyError
	switch {
	case errors.As(fs.lacking[c], &lacks):
		return fmt.Errorf("%s: %w %s: %s", dir, ErrNotEnabled, c, lacks.Do)
	case fs.byController[c].Version == V2 && !hasController(dir, c):
		return fmt.Errorf("%s: %w %s: %s", dir, ErrNotEnabled, c, howToEnable(fs, group, c))
	}
	return nil
}

// howToEnable says how a group of version 2 gets a controller.
//
// systemd enables the cpu controller for units with a CPU weight or quota, and cpuset for those
// with AllowedCPUs. CPUAccounting has no such effect since Linux 4.15, where usage needs no
// controller (unit_get_cgroup_mask and get_cpu_accounting_mask of systemd 239 to 257).
func howToEnable(fs *FS, group string, c Controller) string {
	unit, property := path.Base(group), map[Controller]string{CPU: "CPUWeight=100", CPUSet: "AllowedCPUs=LIST"}[c]
	manager, isUser := userManager(group)
	switch isUnit := slices.Contains([]string{".service", ".slice", ".scope"}, path.Ext(unit)); {
	case isUnit && !isUser:
		return fmt.Sprintf("systemctl set-property %s %s", unit, property)
	case isUnit && hasController(fs.Dir(c, manager), c):
		return fmt.Sprintf("systemctl --user set-property %s %s", unit, property)
	case isUnit:
		return "let users have it: systemctl edit user@.service, add Delegate=cpu cpuset memory pids to [Service], log in again"
	}
	files := ""
	for above := path.Dir(path.Clean("/" + group)); ; above = path.Dir(above) {
		files = " " + filepath.Join(fs.Dir(c, above), SubtreeControl) + files
		if above == "/" || hasController(fs.Dir(c, above), c) {
			return fmt.Sprintf("echo +%s | tee%s", c, files)
		}
	}
}

// userManager returns the group of the systemd instance of a user that manages a group.
func userManager(group string) (manager string, ok bool) {
	for at := path.Dir(group); at != "/" && at != "."; at = path.Dir(at) {
		if strings.HasPrefix(path.Base(at), "user@") {
			return at, true
		}
	}
	return "", false
}

// hasController reports whether a group of version 2 has a controller. If that is not known, it
// does.
func hasController(dir string, c Controller) bool {
	controllers, err := kernfile.Words(filepath.Join(dir, ControllersFile))
	return err != nil || slices.Contains(controllers, string(c))
}
