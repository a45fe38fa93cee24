package debian

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"pault.ag/go/debian/deb"
)

// largestPackage is the maximum size in bytes of the files of one package. The largest locked
// package has a tenth of it.
const largestPackage = 1 << 30

// mergedDirs are the directories that are symbolic links into usr on every Debian system since
// Debian 12. Packages of Debian 12 contain files in them all the same, and no package contains the
// links.
func mergedDirs() []string { return []string{"bin", "lib", "lib64", "sbin"} }

// linkMergedDirs creates the links of mergedDirs.
func linkMergedDirs(root *os.Root) error {
	for _, dir := range mergedDirs() {
		if err := root.MkdirAll(path.Join("usr", dir), 0o755); err != nil {
			return err
		}
		if err := root.Symlink(path.Join("usr", dir), dir); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// Unpack unpacks the files of a .deb file into root, without its maintainer scripts. It creates the
// links of a Debian system from /bin, /lib, /lib64 and /sbin into /usr. Absolute symbolic links
// become relative, so that they lead to files of root. Owners, times and set-user-ID bits are
// dropped.
//
// Unpack rejects a file that exists, a device, and all paths and links that lead out of root. It
// then leaves root half filled.
func Unpack(root *os.Root, file io.ReaderAt) error {
	if err := linkMergedDirs(root); err != nil {
		return fmt.Errorf("prepare %s: %w", root.Name(), err)
	}
	archive, err := dataArchive(file)
	if err != nil {
		return err
	}
	left := int64(largestPackage)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the archive: %w", err)
		}
		if left -= header.Size; left < 0 {
			return fmt.Errorf("%s: the package has more than %d bytes", header.Name, largestPackage)
		}
		if err := unpackEntry(root, header, archive); err != nil {
			return fmt.Errorf("unpack %s: %w", header.Name, err)
		}
	}
}

// dataArchive returns the archive of a package's files.
func dataArchive(file io.ReaderAt) (*tar.Reader, error) {
	members, err := deb.LoadAr(file)
	if err != nil {
		return nil, fmt.Errorf("read a .deb file: %w", err)
	}
	for {
		member, err := members.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil, errors.New("the .deb file has no data.tar")
		case err != nil:
			return nil, fmt.Errorf("read a .deb file: %w", err)
		case member.Size < 0: // Next would return the same members again
			return nil, fmt.Errorf("member %s of the .deb file has size %d", member.Name, member.Size)
		case !strings.HasPrefix(member.Name, "data.tar"):
			continue
		}
		archive, _, err := member.Tarfile() // its Close does nothing for the compressions of Debian
		if err != nil {
			return nil, fmt.Errorf("read %s of the .deb file: %w", member.Name, err)
		}
		return archive, nil
	}
}

func unpackEntry(root *os.Root, header *tar.Header, content io.Reader) error {
	name, err := mergedPath(header.Name)
	if err != nil {
		return err
	}
	if name == "." {
		return nil
	}
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	perm := fs.FileMode(header.Mode).Perm()
	switch header.Typeflag {
	case tar.TypeDir:
		return unpackDir(root, name, perm|0o700) // writable, so that later entries can be unpacked
	case tar.TypeReg:
		return unpackFile(root, name, perm|0o400, content)
	case tar.TypeSymlink:
		return unpackLink(root, name, header.Linkname)
	case tar.TypeLink:
		target, err := mergedPath(header.Linkname)
		if err != nil {
			return err
		}
		return root.Link(target, name)
	default:
		return fmt.Errorf("type %q is not supported: only files, directories and links are", header.Typeflag)
	}
}

func unpackDir(root *os.Root, name string, perm fs.FileMode) error {
	info, err := root.Stat(name) // follows a link to a directory, which stays
	if errors.Is(err, fs.ErrNotExist) {
		if err = root.Mkdir(name, perm); err == nil {
			err = root.Chmod(name, perm) // despite the umask
		}
		return err
	}
	if err == nil && !info.IsDir() {
		err = fs.ErrExist
	}
	return err
}

func unpackFile(root *os.Root, name string, perm fs.FileMode, content io.Reader) error {
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Chmod(perm), file.Close())
}

// mergedPath cleans a path and replaces directories of mergedDirs by those in usr. It rejects paths
// that are absolute or lead out of the root.
func mergedPath(name string) (string, error) {
	clean := path.Clean(name)
	if !filepath.IsLocal(clean) || slices.Contains(strings.Split(name, "/"), "..") {
		return "", errors.New("the path leads out of the package")
	}
	first, _, below := strings.Cut(clean, "/")
	if slices.Contains(mergedDirs(), first) {
		if !below {
			return path.Join("usr", first), nil
		}
		clean = path.Join("usr", clean)
	}
	return clean, nil
}

// unpackLink creates a symbolic link. It rejects one below another symbolic link, because its
// target would be relative to another directory than its path says.
func unpackLink(root *os.Root, name, target string) error {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		info, err := root.Lstat(dir)
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return fmt.Errorf("it is a symbolic link below %s, which is not a directory", dir)
		}
	}
	target, err := relativeTarget(name, target)
	if err != nil {
		return err
	}
	return root.Symlink(target, name)
}

// relativeTarget returns the target of a link, relative to the directory of the link.
func relativeTarget(link, target string) (string, error) {
	dir := path.Dir(link)
	if path.IsAbs(target) {
		below, err := mergedPath(target[1:])
		if err != nil {
			return "", fmt.Errorf("link to %s: %w", target, err)
		}
		return filepath.Rel(dir, below)
	}
	if target == "" || !filepath.IsLocal(path.Join(dir, target)) {
		return "", fmt.Errorf("the link to %q leads out of the package", target)
	}
	return target, nil
}
