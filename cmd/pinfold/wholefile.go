package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// writeWhole writes a file that appears whole or not at all: it is written under another name
// and then linked, which fails, other than a rename, when the name is taken (fs.ErrExist); with
// replace it is renamed.
func writeWhole(name string, content []byte, replace bool) error {
	taken := fmt.Errorf("%s: %w", name, fs.ErrExist)
	if _, err := os.Lstat(name); err == nil && !replace {
		return taken
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".pinfold-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if replace {
		err = os.Rename(f.Name(), name)
	} else {
		err = os.Link(f.Name(), name)
	}
	switch {
	case errors.Is(err, fs.ErrExist) && !replace:
		return taken
	case err != nil:
		return fmt.Errorf("write %s: %w: choose a name in another folder", name, err)
	}
	return nil
}
