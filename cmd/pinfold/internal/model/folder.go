package model

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/report/sweep"
)

// folder is a directory that appears complete or not at all: it is written under a temporary name
// in the same parent directory and then renamed.
type folder struct {
	name        string // as given
	path        string
	force       bool
	replaceable func(file string) bool // whether force may remove such a file
}

// newFolder checks that the name is free and that the parent directory is writable.
func newFolder(name string, force bool, replaceable func(string) bool) (*folder, error) {
	path, err := filepath.Abs(name)
	if err != nil {
		return nil, fmt.Errorf("make %s: %w", name, err)
	}
	f := &folder{name: name, path: path, force: force, replaceable: replaceable}
	if err := f.checkFree(); err != nil {
		return nil, err
	}
	probe, err := f.makeTemporary()
	if err != nil {
		return nil, err
	}
	return f, os.Remove(probe)
}

// maxPrefix bounds the part of the name that a temporary name contains, so that it is not too long.
const maxPrefix = 200

func (f *folder) makeTemporary() (string, error) {
	base := filepath.Base(f.path)
	path, err := os.MkdirTemp(filepath.Dir(f.path), "."+base[:min(len(base), maxPrefix)]+".new-*")
	if wrong := (*os.PathError)(nil); errors.As(err, &wrong) {
		return "", fmt.Errorf("make %s: %w", f.name, wrong.Err)
	}
	return path, err
}

// checkFree returns an error unless the name is free or may be replaced: with force, and if it is a
// directory with nothing but replaceable files.
func (f *folder) checkFree() error {
	info, err := os.Lstat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("make %s: %w", f.name, err)
	case !f.force:
		return frame.SuggestForce(fmt.Errorf("%s: %w", f.name, fs.ErrExist))
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder: choose another name", f.name)
	}
	entries, err := os.ReadDir(f.path)
	if err != nil {
		return fmt.Errorf("look into %s: %w", f.name, err)
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || !f.replaceable(e.Name()) {
			return fmt.Errorf("%s contains %s, which is not of an earlier sweep: choose another name", f.name, e.Name())
		}
	}
	return nil
}

// write makes the directory with its files.
func (f *folder) write(ctx context.Context, files []sweep.File) error {
	made, err := f.makeTemporary()
	if err != nil {
		return err
	}
	defer os.RemoveAll(made) // no effect after the rename
	for _, file := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := writeSynced(filepath.Join(made, file.Name), file.Content); err != nil {
			return fmt.Errorf("write %s: %w", filepath.Join(f.name, file.Name), err)
		}
	}
	if err := os.Chmod(made, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", f.name, err)
	}
	return f.rename(made)
}

func writeSynced(path string, content []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Sync(), file.Close())
}

// maxTries bounds how often other processes may take the name in between.
const maxTries = 10

// rename gives the temporary directory its name. With force, it first moves an earlier one away,
// since a rename does not overwrite directories, and moves it back if the rename fails.
func (f *folder) rename(made string) error {
	old := made + ".old"
	var err error
	for range maxTries {
		if err := f.checkFree(); err != nil {
			return err
		}
		moved := f.force && os.Rename(f.path, old) == nil
		err = os.Rename(made, f.path)
		switch {
		case err == nil:
			return os.RemoveAll(old)
		case errors.Is(err, fs.ErrExist): // another process was faster
			if err := os.RemoveAll(old); err != nil {
				return err
			}
		case moved && os.Rename(old, f.path) != nil:
			return fmt.Errorf("make %s: %w; the earlier one is now %s", f.name, err, old)
		default:
			return fmt.Errorf("make %s: %w", f.name, err)
		}
	}
	return fmt.Errorf("make %s: %w", f.name, err)
}
