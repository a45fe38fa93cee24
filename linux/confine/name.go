package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"pinfold.dev/pinfold/linux/cgroup"
)

// ErrName is wrapped by errors about the name of a run.
var ErrName = errors.New("name of the run")

// CheckName rejects invalid names of runs. Names must start with a letter, because default names
// start with a process id.
func CheckName(name string) error {
	if !regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]{0,62}$`).MatchString(name) {
		return fmt.Errorf("%w: %q: take a letter first, and then letters, digits, '.', '_' and '-', 63 at most", ErrName, name)
	}
	return nil
}

// checkFree refuses the name of a run that is under way. Those that were killed have been
// removed before.
func (g *group) checkFree(name string) error {
	group := runPrefix + name
	for _, c := range g.Of {
		dir := g.fs.Dir(c, group)
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: %q is taken: another run has the control group %s; choose another name, or wait for its end", ErrName, name, dir)
		}
	}
	return nil
}

// IsRun reports whether a group belongs to a run.
func IsRun(group string) bool { return strings.HasPrefix("/"+filepath.Base(group), runPrefix) }

// Runs returns the groups of all users' runs on a machine, except those inside containers of a
// kubelet.
func Runs(machine *cgroup.FS) ([]string, error) {
	top := machine.Dir(cgroup.CPU, "/")
	var groups []string
	err := filepath.WalkDir(top, func(dir string, d fs.DirEntry, err error) error {
		switch group := strings.TrimPrefix(dir, top); {
		case err != nil && dir != top: // it has gone meanwhile, or is another user's
			return fs.SkipDir
		case err != nil:
			return err
		case !d.IsDir():
		case strings.HasPrefix(d.Name(), "kubepods"):
			return fs.SkipDir
		case IsRun(group):
			groups = append(groups, filepath.Join("/", group))
			return fs.SkipDir
		}
		return nil
	})
	slices.Sort(groups)
	if err != nil {
		return nil, fmt.Errorf("look for runs: %w", err)
	}
	return groups, nil
}
