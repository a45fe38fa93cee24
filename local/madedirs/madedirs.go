// Package madedirs creates missing directories and removes them later, also after the process that
// created them was killed:
//
//	made := madedirs.Missing("/", "/var/lib/cni")
//	err := made.Make("/", 0o755, save)  // calls save before and after it creates them
//	err = made.Remove("/", logger)      // in any process that reads what was saved
//
// Remove removes only empty directories, and only those that Make created. A directory is
// identified by [owned.Identity], so one that another program created in its place is kept.
package madedirs

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/linux/owned"
)

// Dirs maps the absolute path of each directory to its identity, "" before it is created. In JSON
// it is an object. Paths are relative to a root, "/" except in tests.
type Dirs map[string]string

// Missing returns those of the directories and their parents that do not exist.
func Missing(root string, dirs ...string) Dirs {
	missing := Dirs{}
	for _, dir := range dirs {
		for ; dir != "/"; dir = filepath.Dir(dir) {
			if _, err := os.Lstat(filepath.Join(root, dir)); errors.Is(err, fs.ErrNotExist) {
				missing[dir] = ""
			}
		}
	}
	return missing
}

// Make creates the directories with the given permissions. One that exists by now is dropped from
// d. Make calls save before it creates the first directory and after the last.
func (d Dirs) Make(root string, perm fs.FileMode, save func() error) error {
	if err := save(); err != nil {
		return err
	}
	for _, dir := range slices.Sorted(maps.Keys(d)) { // parents first
		path := filepath.Join(root, dir)
		err := os.Mkdir(path, perm)
		if errors.Is(err, fs.ErrExist) {
			delete(d, dir)
			continue
		}
		if err == nil {
			d[dir], err = identity(path)
		}
		if err != nil {
			return fmt.Errorf("create a directory: %w", err)
		}
	}
	return save()
}

// Remove removes the directories. It logs those that it keeps, because they are in use or another
// program created them, and returns an error for those that it cannot remove.
func (d Dirs) Remove(root string, logger *slog.Logger) error {
	var failed []error
	for _, dir := range slices.Backward(slices.Sorted(maps.Keys(d))) { // children first
		path := filepath.Join(root, dir)
		found, err := identity(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err == nil && d[dir] != "" && d[dir] != found:
			logger.Warn("kept a directory: another program created it", "directory", dir)
			continue
		case err == nil:
			err = unix.Rmdir(path)
		}
		if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) || errors.Is(err, unix.EBUSY) {
			logger.Warn("kept a directory: it is in use", "directory", dir)
		} else if err != nil {
			failed = append(failed, fmt.Errorf("remove directory %s: %w", dir, err))
		}
	}
	return errors.Join(failed...)
}

func identity(dir string) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	return owned.Identity(root)
}
