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

// Replace is the operation in the [fs.PathError] of a name at which no file can be put.
const Replace = "replace"

// Options configure how a file is written.
type Options struct {
	// Perm are the file's permissions, regardless of the umask. 0: as with [os.Create], 0666 less
	// the umask.
	Perm fs.FileMode
	// KeepOld fails with [fs.ErrExist] if the file exists, instead of replacing it.
	KeepOld bool
	// Sync flushes the content and the directory entry to the disk.
	Sync bool
	// Suffix is appended to the file's name to make the temporary name. A temporary file of that
	// name, left by a killed process, is replaced, so only one process may write the file at a
	// time. If Suffix is empty, the temporary name is random.
	Suffix string
}

// Write writes content to the named file.
func Write(name string, content []byte, o Options) error {
	return WriteFunc(name, o, func(f *os.File) error {
		_, err := f.Write(content)
		return err
	})
}

// WriteFunc writes the named file; the function write writes its content. Errors name that file,
// not the temporary one. Devices, pipes, sockets and links to them are not replaced.
func WriteFunc(name string, o Options, write func(*os.File) error) error {
	exists := fmt.Errorf("%s: %w", name, fs.ErrExist)
	if old, err := os.Stat(name); err == nil && old.Mode()&(fs.ModeDevice|fs.ModeNamedPipe|fs.ModeSocket) != 0 {
		return fmt.Errorf("%s is not a regular file, and is not replaced: choose another name", name)
	}
	if _, err := os.Lstat(name); err == nil && o.KeepOld {
		return exists
	}
	f, err := o.create(name)
	if err != nil {
		return ofFile(name, err)
	}
	if err = write(f); err == nil && o.Sync {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = o.rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error explains more
	}
	switch {
	case err == nil && o.Sync:
		return syncDir(filepath.Dir(name))
	case errors.Is(err, fs.ErrExist) && o.KeepOld:
		return exists
	}
	return ofFile(name, err)
}

// ofFile names the file in an error about the temporary one.
func ofFile(name string, err error) error {
	var path *os.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &link):
		return &os.PathError{Op: Replace, Path: name, Err: link.Err}
	case errors.As(err, &path) && filepath.Dir(path.Path) == filepath.Dir(name):
		path.Path = name
	}
	return err
}

// rename renames the temporary file.
func (o Options) rename(temporary, name string) error {
	if !o.KeepOld {
		return os.Rename(temporary, name)
	}
	if err := os.Link(temporary, name); err != nil { // unlike a rename, it fails if name exists
		return err
	}
	return os.Remove(temporary)
}

// create creates the temporary file.
func (o Options) create(name string) (*os.File, error) {
	temporary := filepath.Join(filepath.Dir(name), ".pinfold-"+rand.Text())
	if o.Suffix != "" {
		temporary = name + o.Suffix
		_ = os.Remove(temporary) // left by a killed process
	}
	perm := o.Perm
	if perm == 0 {
		perm = 0o666
	}
	f, err := os.OpenFile(temporary, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
	if err != nil || o.Perm == 0 {
		return f, err
	}
	if err := f.Chmod(o.Perm); err != nil { // undoes the umask
		_ = os.Remove(temporary)
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// syncDir flushes the entries of a directory to the disk.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
