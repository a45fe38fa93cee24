//go:build linux

package groups

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
	"pinfold.dev/pinfold/linux/confine"
)

// maxChoice bounds the groups that a message lists.
const maxChoice = 10

// Choice says which groups there are in place of a missing one: below the nearest group above it
// that exists, those with processes, and for the root also those of 'pinfold run'.
func Choice(fs *cgroup.FS, missing string) string {
	above := path.Dir(missing)
	for above != "/" && !isDir(fs.Dir(cgroup.CPU, above)) {
		above = path.Dir(above)
	}
	var all []string
	if above == "/" {
		all, _ = confine.Runs(fs) // without them there are fewer to choose from
	}
	below, _ := fs.Children(cgroup.CPU, above)
	var found []string
	for _, group := range append(all, below...) {
		processes, _ := cgrouptree.ProcessesBelow(fs, group, cgroup.CPU) // those that this user may list
		if len(processes) > 0 && len(found) < maxChoice && !slices.Contains(found, trace.ShellWord(group)) {
			found = append(found, trace.ShellWord(group))
		}
	}
	how := fmt.Sprintf("'ls %s' lists all", fs.Dir(cgroup.CPU, above))
	if len(found) == 0 {
		return "choose one: " + how
	}
	return fmt.Sprintf("choose one, such as %s; %s", strings.Join(found, ", "), how)
}

// Missing returns what a command says about groups if it needs one and none was given.
func (s *Options) Missing() string {
	fs, err := cgroup.OpenUsage(s.Root)
	if err != nil {
		return err.Error()
	}
	return Choice(fs, "/")
}

// WithProcesses returns the groups that have processes of their own, except the root. Groups that
// this user may not look into are left out.
func WithProcesses(fs *cgroup.FS) (found []string) {
	root := fs.Dir(cgroup.CPU, "/")
	dirs, _ := cgrouptree.DirsBelow(root)
	for _, dir := range dirs {
		group, err := filepath.Rel(root, dir)
		if ids, _ := cgrouptree.ProcessesIn(dir); err == nil && group != "." && len(ids) > 0 {
			found = append(found, "/"+group)
		}
	}
	return found
}
