//go:build linux

// Package groups finds the cgroups that command-line arguments name, and the names of their
// containers.
//
// Arguments are paths in the hierarchy, directories or patterns ([Find]), or pods of this node
// ([OfPod]). Containers get their names from the links that the kubelet makes to their logs
// ([Names]), so that the API server is not needed.
package groups

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
	"pinfold.dev/pinfold/linux/confine"
	"pinfold.dev/pinfold/linux/sampler"
)

// Find returns the cgroups that an argument names: a path in the hierarchy, a directory, or a
// pattern of one of them. root is the machine's root directory. Groups that match a pattern but
// cannot be sampled are omitted with a message.
func Find(fs *cgroup.FS, root, arg string, stderr io.Writer) ([]string, error) {
	if !isPattern(fs, root, arg) {
		group, err := resolve(fs, root, arg)
		return []string{group}, err
	}
	dirs, unlisted, err := matching(fs, root, arg)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, dir := range dirs {
		group, err := resolve(fs, root, dir)
		if err != nil {
			frame.Notef(stderr, "left out: %v", err)
			continue
		}
		found = append(found, group)
	}
	if unlisted != nil {
		frame.Notef(stderr, "some groups may be left out: %v", unlisted)
	}
	switch {
	case len(found) > 0:
		return found, nil
	case len(dirs) > 0:
		return nil, fmt.Errorf("no control group that matches '%s' can be sampled", arg)
	}
	return nil, fmt.Errorf("no control group matches '%s' below %s: is it in quotes, and with a * for each level? %s", arg, fs.Dir(cgroup.CPU, "/"), Choice(fs, "/"))
}

// wildcards make a name a pattern. A backslash alone does not: systemd writes "-" as \x2d.
const wildcards = "*?["

// isPattern reports whether arg is a pattern. A group or directory that exists is not one, whatever
// its name.
func isPattern(fs *cgroup.FS, root, arg string) bool {
	group, err := pathOf(fs, root, arg)
	return strings.ContainsAny(arg, wildcards) && (err != nil || !isDir(fs.Dir(cgroup.CPU, group)))
}

// resolve resolves arg, a cgroup path or directory, to a path in the hierarchy that can be sampled.
func resolve(fs *cgroup.FS, root, arg string) (string, error) {
	group, err := pathOf(fs, root, arg)
	if err != nil {
		return "", err
	}
	err = sampler.Check(fs, group)
	switch {
	case err == nil:
		err = checkCounted(fs, group)
	case !errors.Is(err, cgroup.ErrGone):
	case isDir(fs.Dir(cgroup.CPU, group)):
		err = fmt.Errorf("control group %s is not in %s, where CPU time is counted: make it there, and move its processes to it", group, fs.Dir(cgroup.CPUAcct, "/"))
	case isDir(arg):
		return "", notCgroup(fs, arg)
	default:
		if run := runNamed(fs, group); run != "" {
			return resolve(fs, root, run)
		}
		err = fmt.Errorf("%w: %s", err, Choice(fs, group))
	}
	return group, err
}

// runNamed looks for a missing group "/pinfold-run-NAME" below other groups, where 'pinfold run' makes it if it is started
// in a login session. It returns "" if no run or several runs have that name.
func runNamed(fs *cgroup.FS, missing string) string {
	if path.Dir(missing) != "/" || !confine.IsRun(missing) {
		return ""
	}
	runs, _ := confine.Runs(fs) // there may be one among those that this user may list
	runs = slices.DeleteFunc(runs, func(group string) bool { return path.Base(group) != path.Base(missing) })
	if len(runs) != 1 {
		return ""
	}
	return runs[0]
}

// checkCounted returns an error if the processes of a group of version 1 are in another one of
// cpuacct: what it uses would be 0.
func checkCounted(fs *cgroup.FS, group string) error {
	if group == "/" || fs.Hierarchy(cgroup.CPUAcct).Mount == "" {
		return nil
	}
	processes, _ := cgrouptree.ProcessesBelow(fs, group, cgroup.CPU) // those that this user may list
	counted, _ := cgrouptree.ProcessesBelow(fs, group, cgroup.CPUAcct)
	if len(processes) == 0 || slices.ContainsFunc(processes, func(pid int) bool { return slices.Contains(counted, pid) }) {
		return nil
	}
	elsewhere, err := cgrouptree.Of(fs, cgroup.CPUAcct, processes[0])
	if err == nil && elsewhere != group { // otherwise it has ended, or has just begun
		return errCountedIn(processes[0], group, elsewhere)
	}
	return nil
}

func errCountedIn(pid int, group, elsewhere string) error {
	return fmt.Errorf("process %d is in %s of the cpu controller, and in %s of cpuacct, which counts: move it to one group in both", pid, group, elsewhere)
}

func pathOf(fs *cgroup.FS, root, arg string) (string, error) {
	for _, dir := range []string{arg, filepath.Join(root, arg)} {
		if group, ok := at(fs, dir); ok {
			return group, nil
		}
	}
	if isDir(arg) && !filepath.IsAbs(arg) {
		return "", notCgroup(fs, arg)
	}
	return fs.GroupAt(arg), nil
}

// at returns the group whose directory is dir.
func at(fs *cgroup.FS, dir string) (group string, ok bool) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil || !isDir(real) {
		return "", false
	}
	if real, err = filepath.Abs(real); err != nil {
		return "", false
	}
	for _, h := range fs.Hierarchies() {
		mount, err := filepath.EvalSymlinks(h.Mount)
		if err != nil {
			continue
		}
		if rest, ok := strings.CutPrefix(real+"/", mount+"/"); ok {
			return filepath.Clean("/" + rest), true
		}
	}
	return "", false
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func notCgroup(fs *cgroup.FS, dir string) error {
	return fmt.Errorf("%s is a directory but not a control group: those of the CPU controller are below %s", dir, fs.Dir(cgroup.CPU, "/"))
}

// matching returns the directories of groups that match pattern, first tried as a path in the
// hierarchy and then as a directory below root. unlisted is a [cgrouptree.UnlistedError] about
// directories that may have more.
func matching(fs *cgroup.FS, root, pattern string) (dirs []string, unlisted, err error) {
	for _, top := range []string{fs.Dir(cgroup.CPU, "/"), root} {
		var names []string
		if names, unlisted, err = expand(top, pattern); err != nil {
			return nil, nil, fmt.Errorf("%q: %w: write [] and \\ as shells do", pattern, err)
		}
		for _, name := range names {
			if _, ok := at(fs, name); ok {
				dirs = append(dirs, name)
			}
		}
		if len(dirs) > 0 || unlisted != nil {
			break
		}
	}
	return dirs, unlisted, nil
}

// expand returns the directories below top that match a pattern, as [filepath.Glob] would, which
// does not say what it could not list. A backslash escapes wildcards only.
func expand(top, pattern string) (dirs []string, unlisted, err error) {
	dirs, escape := []string{top}, regexp.MustCompile(`\\([^*?[\]\\]|$)`)
	var closed cgrouptree.UnlistedError
	for _, part := range strings.FieldsFunc(pattern, func(r rune) bool { return r == '/' }) {
		var found []string
		for _, dir := range dirs {
			if !strings.ContainsAny(part, wildcards) {
				found = append(found, filepath.Join(dir, part))
				continue
			}
			entries, err := os.ReadDir(dir)
			if err != nil {
				closed.Add(dir, err)
			}
			for _, e := range entries {
				match, err := filepath.Match(escape.ReplaceAllString(part, `\\$1`), e.Name())
				if err != nil {
					return nil, nil, err
				}
				if name := filepath.Join(dir, e.Name()); match && isDir(name) {
					found = append(found, name)
				}
			}
		}
		dirs = found
	}
	return slices.DeleteFunc(dirs, func(dir string) bool { return !isDir(dir) }), closed.ErrorOrNil(), nil
}
