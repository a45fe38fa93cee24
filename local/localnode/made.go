package localnode

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

// madeDirs are directories that a node creates, and that Restore removes. It maps the absolute path of
// each to its [owned.Identity], "" before it is created, so that one that another program created in
// its place is kept. Paths are relative to a root, "/" except in tests.
type madeDirs map[string]string

// missingDirs returns those of the directories and their parents that do not exist.
func missingDirs(root string, dirs ...string) madeDirs {
	missing := madeDirs{}
	for _, dir := range dirs {
		for ; dir != "/"; dir = filepath.Dir(dir) {
			if _, err := os.Lstat(filepath.Join(root, dir)); errors.Is(err, fs.ErrNotExist) {
				missing[dir] = ""
			}
		}
	}
	return missing
}

// create creates the directories. One that exists by now is dropped from d. It calls save before the
// first directory and after the last.
func (d madeDirs) create(root string, save func() error) error {
	if err := save(); err != nil {
		return err
	}
	for _, dir := range slices.Sorted(maps.Keys(d)) { // parents first
		path := filepath.Join(root, dir)
		err := os.Mkdir(path, 0o755)
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

// remove removes those of the directories that are empty. It logs those that it keeps, because they are
// in use or another program created them, and returns an error for those that it cannot remove.
func (d madeDirs) remove(root string, logger *slog.Logger) error {
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
