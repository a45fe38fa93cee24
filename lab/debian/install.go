package debian

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Cache is a directory of downloaded packages and unpacked programs. The zero value is the default
// cache of this user. Several processes may use a cache at the same time.
type Cache struct {
	Dir      string       // default: pinfold/debian below os.UserCacheDir(); no other user may change it
	Progress func(string) // is called before each step that takes time; may be nil

	sources []source // default: defaultSources
}

func (c Cache) path() (string, error) {
	if c.Dir != "" {
		return c.Dir, nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a directory for Debian packages: %w; set HOME or XDG_CACHE_HOME", err)
	}
	return filepath.Join(dir, "pinfold", "debian"), nil
}

// Fetch downloads those packages that the cache does not have. It returns [ErrUnavailable] if there
// is no source for a package.
func (c Cache) Fetch(ctx context.Context, packages ...Package) error {
	s, err := c.open()
	if err != nil {
		return err
	}
	defer s.close()
	lock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer lock.Close()
	return s.fetch(ctx, packages)
}

// Open opens the .deb file of a package that was fetched, and verifies its size and digest.
func (c Cache) Open(p Package) (*os.File, error) {
	s, err := c.open()
	if err != nil {
		return nil, err
	}
	defer s.close()
	return s.openPackage(p)
}

// Install returns the unpacked locked program ("nginx", "apache2", "wrk" or "ffmpeg"). It downloads
// and unpacks the program's packages unless an earlier call did. It returns [ErrUnavailable] if
// there is no source for a package.
func (c Cache) Install(ctx context.Context, program string) (Root, error) {
	lock, err := Locked()
	if err != nil {
		return Root{}, err
	}
	p, err := lock.Program(program)
	if err != nil {
		return Root{}, err
	}
	if runtime.GOARCH != Architecture {
		return Root{}, fmt.Errorf("install %s: only %s packages are locked, and this machine is %s", program, Architecture, runtime.GOARCH)
	}
	return c.install(ctx, p)
}

func (c Cache) install(ctx context.Context, p Program) (Root, error) {
	s, err := c.open()
	if err != nil {
		return Root{}, err
	}
	defer s.close()
	root := Root{Dir: s.path(rootsDir, p.ID()), Program: p}
	if strings.ContainsAny(root.Dir, ":;") { // both separate directories of the dynamic loader
		return Root{}, fmt.Errorf("install %s in %s: choose a path without colon and semicolon", p.Name, root.Dir)
	}
	if installed, err := s.has(p); installed || err != nil {
		return root, err
	}
	lock, err := s.lock(ctx)
	if err != nil {
		return Root{}, err
	}
	defer lock.Close()
	if installed, err := s.has(p); installed || err != nil { // by the process that held the lock
		return root, err
	}
	if err := s.fetch(ctx, p.Packages); err != nil {
		return Root{}, fmt.Errorf("install %s: %w", p.Name, err)
	}
	if err := s.unpack(ctx, p); err != nil {
		return Root{}, fmt.Errorf("install %s: %w", p.Name, err)
	}
	return root, nil
}

// has reports whether the program is unpacked.
func (s *store) has(p Program) (bool, error) {
	_, err := s.dir.Lstat(path.Join(rootsDir, p.ID()))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// unpack unpacks a program whose packages have been fetched. The root directory appears with all
// its files or not at all, even if the machine fails, because they are on the disk before it is
// renamed.
func (s *store) unpack(ctx context.Context, p Program) error {
	s.progress(fmt.Sprintf("unpacking the %d packages of %s", len(p.Packages), p.Name))
	name := path.Join(temporary, p.ID())
	if err := s.dir.Mkdir(name, 0o755); err != nil {
		return err
	}
	root, err := s.dir.OpenRoot(name)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, pkg := range p.Packages {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := s.unpackPackage(root, pkg); err != nil {
			return fmt.Errorf("package %s: %w", pkg.file(), err)
		}
	}
	if err := syncFilesystem(root); err != nil {
		return err
	}
	return s.dir.Rename(name, path.Join(rootsDir, p.ID()))
}

func (s *store) unpackPackage(root *os.Root, p Package) error {
	file, err := s.openPackage(p)
	if err != nil {
		return err
	}
	defer file.Close()
	return Unpack(root, file)
}

// syncFilesystem writes the filesystem of a directory to disk (syncfs(2)).
func syncFilesystem(root *os.Root) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	return os.NewSyscallError("syncfs", unix.Syncfs(int(dir.Fd())))
}
