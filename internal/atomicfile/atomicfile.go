// Package atomicfile writes files atomically: a file appears complete or not at all.
//
//	err := atomicfile.Write("settings.json", text, atomicfile.Options{Perm: 0o600, Sync: true})
//
// The file is written under a temporary name in the same directory and then renamed. On an error,
// no temporary file remains.
package atomicfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Options say how a file is written.
type Options struct {
	// Perm are the file's permissions; 0 stands for those of [os.Create], which the umask
	// bounds.
	Perm fs.FileMode
	// KeepOld refuses to replace a file, with an error that wraps [fs.ErrExist].
	KeepOld bool
	// Sync has content and name on the disk at the return.
	Sync bool
	// Suffix makes the name of the temporary file out of that of the file. A temporary file
	// that a killed process left is replaced, so only one process may write the file at a
	// time. Without it the name is random.
	Suffix string
}

// Write writes a file.
func Write(name string, content []byte, o Options) error {
	return WriteFunc(name, o, func(f *os.File) error {
		_, err := f.Write(content)
		return err
	})
}

// WriteFunc writes a file with the content that the function gives it. Where the file cannot
// get its name, the error is an [*os.LinkError].
func WriteFunc(name string, o Options, write func(*os.File) error) error {
	taken := fmt.Errorf("%s: %w", name, fs.ErrExist)
	if _, err := os.Lstat(name); err == nil && o.KeepOld {
		return taken
	}
	f, err := o.create(name)
	if err != nil {
		return err
	}
	if err = write(f); err == nil && o.Sync {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = o.place(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error counts
	}
	switch {
	case err == nil && o.Sync:
		return syncDir(filepath.Dir(name))
	case errors.Is(err, fs.ErrExist) && o.KeepOld:
		return taken
	}
	return err
}

// place gives the temporary file the name.
func (o Options) place(temporary, name string) error {
	if !o.KeepOld {
		return os.Rename(temporary, name)
	}
	if err := os.Link(temporary, name); err != nil { // unlike a rename it fails when the name is taken
		return err
	}
	return os.Remove(temporary)
}

// create opens the temporary file.
func (o Options) create(name string) (*os.File, error) {
	temporary := filepath.Join(filepath.Dir(name), ".pinfold-"+rand.Text())
	if o.Suffix != "" {
		temporary = name + o.Suffix
		_ = os.Remove(temporary) // left by a kill
	}
	perm := o.Perm
	if perm == 0 {
		perm = 0o666
	}
	f, err := os.OpenFile(temporary, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
	if err != nil || o.Perm == 0 {
		return f, err
	}
	if err := f.Chmod(o.Perm); err != nil { // the umask took something away
		_ = os.Remove(temporary)
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// syncDir puts the names in a folder on the disk.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
