package debian

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"pinfold.dev/pinfold/linux/owned"
)

// Directories and files of a cache.
const (
	packagesDir = "packages" // .deb files, each complete and with the right digest when it was added
	rootsDir    = "roots"    // unpacked programs, each complete
	temporary   = "tmp"      // everything incomplete; belongs to the holder of the lock
	lockName    = "lock"
)

// lockPoll is the time between two attempts to lock a cache that another process uses.
const lockPoll = 200 * time.Millisecond

// store is an open cache.
type store struct {
	dir      *os.Root
	sources  []source
	progress func(string)
}

// open creates the cache if necessary and checks that no other user can change it.
func (c Cache) open() (*store, error) {
	s := &store{sources: c.sources, progress: c.Progress}
	if s.progress == nil {
		s.progress = func(string) {}
	}
	dir, err := c.path()
	if err != nil {
		return nil, err
	}
	if err := owned.Make(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the cache of Debian packages: %w", err)
	}
	if s.dir, err = owned.Open(dir); err != nil {
		return nil, fmt.Errorf("open the cache of Debian packages: %w", err)
	}
	if s.sources == nil {
		if s.sources, err = defaultSources(s.path(temporary)); err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

func (s *store) close() { _ = s.dir.Close() } // read only

// path returns the name of a file of the cache.
func (s *store) path(elem ...string) string {
	return filepath.Join(append([]string{s.dir.Name()}, elem...)...)
}

// lock waits until no other process uses the cache, and removes what killed processes left. The
// cache is locked until the returned file is closed.
func (s *store) lock(ctx context.Context) (io.Closer, error) {
	for waited := false; ; waited = true {
		held, err := owned.Lock(s.path(lockName))
		if err == nil {
			if err := s.clean(); err != nil {
				_ = held.Close() // the first error is returned
				return nil, fmt.Errorf("prepare the cache %s: %w", s.dir.Name(), err)
			}
			return held, nil
		}
		if !errors.Is(err, owned.ErrHeld) {
			return nil, fmt.Errorf("lock the cache of Debian packages: %w", err)
		}
		if !waited {
			s.progress("waiting for another process that uses " + s.dir.Name())
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for another process that uses %s: %w", s.dir.Name(), context.Cause(ctx))
		case <-time.After(lockPoll):
		}
	}
}

// clean creates the directories and empties the temporary one.
func (s *store) clean() error {
	if err := s.dir.RemoveAll(temporary); err != nil {
		return err
	}
	for _, dir := range []string{packagesDir, rootsDir, temporary} {
		if err := s.dir.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	return nil
}

// openPackage opens the verified file of a package. It removes a damaged file, and then returns
// [fs.ErrNotExist] as if there were none.
func (s *store) openPackage(p Package) (*os.File, error) {
	name := path.Join(packagesDir, p.file())
	file, err := s.dir.Open(name)
	if err != nil {
		return nil, err
	}
	err = copyVerified(io.Discard, file, p)
	if err == nil {
		return file, nil
	}
	_ = file.Close() // read only
	if !errors.Is(err, errWrongContent) {
		return nil, fmt.Errorf("read %s: %w", s.path(name), err)
	}
	s.progress(fmt.Sprintf("removing the damaged file %s: %v", s.path(name), err))
	if err := s.dir.Remove(name); err != nil {
		return nil, err
	}
	return nil, fs.ErrNotExist
}

// add stores the content of a package if it has the right size and digest.
func (s *store) add(p Package, content io.Reader) error {
	name := path.Join(temporary, p.file())
	file, err := s.dir.Create(name)
	if err != nil {
		return err
	}
	err = copyVerified(file, content, p)
	if err = errors.Join(err, file.Close()); err == nil {
		return s.dir.Rename(name, path.Join(packagesDir, p.file()))
	}
	return errors.Join(err, s.dir.Remove(name))
}

// errWrongContent reports that the content of a package has the wrong size or digest.
var errWrongContent = errors.New("not the locked package")

// copyVerified copies the content of a package. It reads at most one byte more than the package
// has.
func copyVerified(to io.Writer, content io.Reader, p Package) error {
	digest := sha256.New()
	n, err := io.Copy(io.MultiWriter(to, digest), io.LimitReader(content, p.Size+1))
	if err != nil {
		return err
	}
	if n > p.Size {
		return fmt.Errorf("%w: more than %d bytes", errWrongContent, p.Size)
	}
	if n < p.Size {
		return fmt.Errorf("%w: %d bytes, want %d", errWrongContent, n, p.Size)
	}
	if got := hex.EncodeToString(digest.Sum(nil)); got != p.SHA256 {
		return fmt.Errorf("%w: SHA-256 %s, want %s", errWrongContent, got, p.SHA256)
	}
	return nil
}
