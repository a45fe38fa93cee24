package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"pinfold.dev/pinfold/report/sweep"
)

// folder is one that appears whole or not at all: it is filled under another name beside its
// place and then renamed.
type folder struct {
	name  string // as it was given
	path  string
	force bool
	own   func(file string) bool // what an earlier one may have in it, to be replaced
}

// newFolder finds early what would only be found at the end: the name is taken, or the
// place cannot be written to.
func newFolder(name string, force bool, own func(string) bool) (*folder, error) {
	path, err := filepath.Abs(name)
	if err != nil {
		return nil, fmt.Errorf("make %s: %w", name, err)
	}
	f := &folder{name: name, path: path, force: force, own: own}
	if err := f.free(); err != nil {
		return nil, err
	}
	tried, err := f.temporary()
	if err != nil {
		return nil, err
	}
	return f, os.Remove(tried)
}

// nameRoom is how many bytes of a name are taken over: with what is added it must be a name, too.
const nameRoom = 200

// temporary makes an empty folder beside the place.
func (f *folder) temporary() (string, error) {
	base := filepath.Base(f.path)
	path, err := os.MkdirTemp(filepath.Dir(f.path), "."+base[:min(len(base), nameRoom)]+".new-*")
	if err != nil {
		return "", fmt.Errorf("make %s: %w", f.name, err)
	}
	return path, nil
}

// free returns an error unless the name is free or what is there may be replaced: a folder
// with nothing else than an earlier one of the same kind.
func (f *folder) free() error {
	info, err := os.Lstat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("make %s: %w", f.name, err)
	case !f.force:
		return f.taken()
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder: choose another name", f.name)
	}
	entries, err := os.ReadDir(f.path)
	if err != nil {
		return fmt.Errorf("look into %s: %w", f.name, err)
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || !f.own(e.Name()) {
			return fmt.Errorf("%s has %s in it, which is not of an earlier sweep: choose another name", f.name, e.Name())
		}
	}
	return nil
}

func (f *folder) taken() error {
	return fmt.Errorf("%s: %w: choose another name, or replace it with --force", f.name, fs.ErrExist)
}

// write makes the folder with its files.
func (f *folder) write(ctx context.Context, files []sweep.File) error {
	made, err := f.temporary()
	if err != nil {
		return err
	}
	defer os.RemoveAll(made) // when it was not renamed
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
	return f.place(made)
}

func writeSynced(path string, content []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Sync(), file.Close())
}

// tries is how often another process may take the name while this one replaces it.
const tries = 10

// place gives what was made its name.
func (f *folder) place(made string) error {
	var err error
	for range tries {
		if _, found := os.Lstat(f.path); errors.Is(found, fs.ErrNotExist) {
			if err = os.Rename(made, f.path); err == nil {
				return nil
			}
		}
		if err := f.free(); err != nil {
			return err
		}
		if err = f.replace(made); err == nil {
			return nil
		}
	}
	return fmt.Errorf("make %s: %w", f.name, err)
}

// replace renames what has the name, as a rename does not overwrite a folder, and puts it
// back when that was in vain.
func (f *folder) replace(made string) error {
	aside, err := f.temporary()
	if err != nil {
		return err
	}
	old := filepath.Join(aside, filepath.Base(f.path))
	if err := os.Rename(f.path, old); err != nil {
		return errors.Join(err, os.Remove(aside))
	}
	err = os.Rename(made, f.path)
	switch {
	case err == nil, errors.Is(err, fs.ErrExist): // or another process has replaced it
		return errors.Join(err, os.RemoveAll(aside))
	case os.Rename(old, f.path) == nil:
		return errors.Join(err, os.Remove(aside))
	}
	return fmt.Errorf("%w; the earlier one is now %s", err, old)
}
