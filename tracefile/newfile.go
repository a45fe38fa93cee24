package tracefile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Taken returns an error if the name of an output is taken and may not be replaced.
func Taken(name string, replace bool) error {
	if name == Stdout || replace {
		return nil
	}
	if _, err := os.Lstat(name); err == nil {
		return fmt.Errorf("%s: %w", name, fs.ErrExist)
	}
	return nil
}

// newFile writes a file that appears whole or not at all: it has another name until it is
// on the disk.
func newFile(name string, replace bool, write func(*os.File) error) (err error) {
	if err := Taken(name, replace); err != nil {
		return err
	}
	dir := filepath.Dir(name)
	// Other than os.CreateTemp it leaves to the umask who may read the file.
	f, err := os.OpenFile(filepath.Join(dir, ".pinfold-trace-"+rand.Text()), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if err := write(f); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if replace {
		err = os.Rename(f.Name(), name)
	} else {
		err = os.Link(f.Name(), name) // other than a rename it fails when the name is taken
	}
	if err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir puts the names in a folder on the disk.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
