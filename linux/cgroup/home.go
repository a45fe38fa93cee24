package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrNoHome reports that there is no group in which this process may create groups.
var ErrNoHome = errors.New("no control group to make others in")

// Home is where this process may make groups.
type Home struct {
	// Roots are the groups to make others in, for [FS.Within].
	Roots map[Controller]string
	// StepAside says that this process is alone in the root of version 2, and has to
	// leave it before that passes controllers on: see [FS.StepAside].
	StepAside bool
}

// Home finds where this process may make groups with the controllers.
//
// On version 1 that is in its own groups. On version 2 a group that passes controllers
// on has no processes of its own, the root excepted. So it is the nearest group, from
// the process's own one upwards, that has the controllers, may be written, and has no
// process or only this one. The error wraps ErrNoHome and says what to do.
func (fs *FS) Home(of ...Controller) (Home, error) {
	home := Home{Roots: map[Controller]string{}}
	for c, h := range fs.of {
		if h.Mount == "" {
			continue
		}
		own, err := fs.Own(c)
		if err != nil {
			return Home{}, err
		}
		home.Roots[c] = own
	}
	for _, h := range fs.separate(of) {
		if h.ReadOnly {
			return Home{}, &HierarchyError{h.controllers[0], h.Mount, ErrReadOnly, "mount it read-write for this process"}
		}
		own := home.Roots[h.controllers[0]]
		if h.Version == V1 {
			if err := mayMakeIn(filepath.Join(h.Mount, own)); err != nil {
				return Home{}, fmt.Errorf("%w: %w: run as root, or let root make a control group of yours (with chown) and start from within it", ErrNoHome, err)
			}
			continue
		}
		root, alone, err := h.nearest(own)
		if err != nil {
			return Home{}, err
		}
		for c := range home.Roots {
			if fs.of[c].Mount == h.Mount {
				home.Roots[c] = root
			}
		}
		home.StepAside = home.StepAside || alone
	}
	return home, nil
}

// mayMakeIn asks whether groups can be made in a directory, and this process be moved
// from there to them.
func mayMakeIn(dir string) error {
	for _, name := range []string{dir, filepath.Join(dir, string(Procs))} {
		if err := unix.Access(name, unix.W_OK); err != nil {
			return &os.PathError{Op: "write", Path: name, Err: err}
		}
	}
	return nil
}

// nearest is Home in a hierarchy of version 2.
func (h hierarchyOf) nearest(own string) (group string, alone bool, err error) {
	var reasons []string
	for at := own; ; at = path.Dir(at) {
		alone, why := h.fits(filepath.Join(h.Mount, at), at == own)
		if why == "" {
			return at, alone, nil
		}
		reasons = append(reasons, at+" "+why)
		if at == "/" {
			break
		}
	}
	return "", false, fmt.Errorf("%w: %s: %s", ErrNoHome, strings.Join(reasons, ", "), h.advice())
}

// fits returns why groups cannot be made in one; "" when they can. Alone says that
// this process is the only one in it.
func (h hierarchyOf) fits(dir string, own bool) (alone bool, why string) {
	has, err := words(filepath.Join(dir, controllersFile))
	if err != nil {
		return false, "cannot be read"
	}
	for _, c := range h.controllers {
		if !slices.Contains(has, string(c)) {
			return false, "does not have the controller " + string(c)
		}
	}
	if mayMakeIn(dir) != nil {
		return false, "may not be written by this user"
	}
	kind, err := words(filepath.Join(dir, typeFile))
	if errors.Is(err, os.ErrNotExist) {
		return false, "" // the root may have processes
	}
	if err != nil || len(kind) != 1 || kind[0] != "domain" {
		return false, "is threaded"
	}
	if unix.Access(filepath.Join(dir, subtreeControl), unix.W_OK) != nil {
		return false, "may not be written by this user"
	}
	in, err := words(filepath.Join(dir, string(Procs)))
	switch {
	case err != nil:
		return false, "cannot be read"
	case len(in) == 0:
		return false, ""
	case own && len(in) == 1 && in[0] == strconv.Itoa(os.Getpid()):
		return true, ""
	}
	return false, "has processes of its own"
}

func (h hierarchyOf) advice() string {
	if os.Geteuid() == 0 {
		return "start the command in a group of its own: systemd-run --scope -p Delegate=yes -- COMMAND"
	}
	advice := "run as root, or in a group of your own: systemd-run --user --scope -p Delegate=yes -- COMMAND"
	if slices.Contains(h.controllers, CPUSet) {
		advice += " (for cpuset root must have added Delegate=cpu cpuset to user@.service, in its section Service)"
	}
	return advice
}

// StepAside moves this process from the root "/" of a version 2 hierarchy to a group below it, so
// that the root can delegate controllers.
func (fs *FS) StepAside(group string) error {
	dir := fs.Dir(CPU, group)
	if err := os.Mkdir(dir, directoryMode); err != nil {
		return fmt.Errorf("step aside: %w", err)
	}
	if err := writeFile(filepath.Join(dir, string(Procs)), "0"); err != nil {
		return errors.Join(fmt.Errorf("step aside: %w", err), os.Remove(dir))
	}
	return nil
}

// StepBack undoes StepAside if no other group below the root is left and this process is the last
// one in it.
func (fs *FS) StepBack(ctx context.Context, group string) error {
	root := fs.Dir(CPU, "/")
	passes, err := words(filepath.Join(root, subtreeControl))
	if err != nil {
		return fmt.Errorf("step back: %w", err)
	}
	for _, c := range passes {
		if err := writeFile(filepath.Join(root, subtreeControl), "-"+c); err != nil {
			return fmt.Errorf("step back: no longer pass %s on: %w", c, err)
		}
	}
	if err := writeFile(filepath.Join(root, string(Procs)), "0"); err != nil {
		return fmt.Errorf("step back: %w", err)
	}
	return fs.Remove(ctx, group, CPU)
}
