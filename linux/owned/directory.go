package owned

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrForeign reports that another user can change a directory or file.
var ErrForeign = errors.New("another user can change it")

// maxLinks is the kernel's limit of symbolic links on a path (path_resolution(7)).
const maxLinks = 40

// Open opens a directory that only this user can change. The name of the root ([os.Root.Name]) is
// absolute and free of symbolic links. Open rejects a symbolic link to a directory.
func Open(dir string) (*os.Root, error) {
	path, err := resolveParents(dir)
	if err != nil {
		return nil, err
	}
	found, err := os.Lstat(path)
	if err != nil {
		return nil, fmt.Errorf("open a directory: %w", err)
	}
	if found.Mode()&fs.ModeSymlink != 0 {
		return nil, fmt.Errorf("%s is a symbolic link: name the directory itself", dir)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("open a directory: %w", err)
	}
	opened, err := root.Stat(".")
	switch {
	case err != nil:
		err = fmt.Errorf("look at %s: %w", path, err)
	case !os.SameFile(found, opened):
		err = fmt.Errorf("%s was replaced while it was opened: %w", path, ErrForeign)
	default:
		err = check(path, opened)
	}
	if err != nil {
		_ = root.Close() // read only
		return nil, err
	}
	return root, nil
}

// Make creates a directory and those above it that are missing. It creates nothing below a
// directory, or through a link, that another user can change. An existing directory is left as it
// is.
func Make(dir string, perm fs.FileMode) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("make a directory: %w", err)
	}
	path, err := resolveParents(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err = Make(filepath.Dir(dir), perm); err == nil {
			path, err = resolveParents(dir)
		}
	}
	if err == nil {
		if err = os.Mkdir(path, perm); errors.Is(err, fs.ErrExist) {
			return nil
		}
	}
	return err
}

// Protect removes all permissions of others from a directory of this user. It rejects a directory
// of another user and a symbolic link.
func Protect(dir string) error {
	file, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if err := checkOwner(dir, info); err != nil {
		return err
	}
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	return file.Chmod(0o700)
}

// check rejects a directory or file that another user can write.
func check(path string, info fs.FileInfo) error {
	if err := checkOwner(path, info); err != nil {
		return err
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s may be written by its group or by others (mode %04o): %w", path, info.Mode().Perm(), ErrForeign)
	}
	return nil
}

func checkOwner(path string, info fs.FileInfo) error {
	if owner := info.Sys().(*syscall.Stat_t).Uid; int(owner) != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d, and this is user %d: %w", path, owner, os.Geteuid(), ErrForeign)
	}
	return nil
}

// resolveParents makes a path absolute and resolves the symbolic links above its last element. It
// rejects the path if another user can change a directory on the way.
func resolveParents(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("find %s: %w", path, err)
	}
	at, rest := "/", elements(path)
	for links := 0; len(rest) > 1; {
		name := rest[0]
		rest = rest[1:]
		if name == ".." { // in the target of a link
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		info, err := os.Lstat(next)
		if err != nil {
			return "", fmt.Errorf("find %s: %w", path, err)
		}
		if err := checkParent(path, next, info); err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", fmt.Errorf("find %s: %w", path, err)
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("find %s: %w", path, unix.ELOOP)
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = slices.Concat(elements(target), rest)
	}
	return filepath.Join(append([]string{at}, rest...)...), nil
}

// elements splits a path into names, without empty ones and ".".
func elements(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(e string) bool { return e == "" || e == "." })
}

// checkParent rejects a directory, or a link to one, in which another user could replace entries.
func checkParent(path, parent string, info fs.FileInfo) error {
	stat := info.Sys().(*syscall.Stat_t)
	if !isTrusted(stat.Uid, 0, os.Geteuid(), "SUDO_UID") {
		return fmt.Errorf("%s is below %s, which belongs to user %d: %w; choose a directory elsewhere", path, parent, stat.Uid, ErrForeign)
	}
	if info.Mode()&(fs.ModeSymlink|fs.ModeSticky) != 0 {
		return nil // the mode of a link has no effect; in a sticky directory only owners may rename
	}
	mode := info.Mode().Perm()
	if mode&0o002 != 0 || mode&0o020 != 0 && !isTrusted(stat.Gid, 0, os.Getegid(), "SUDO_GID") {
		return fmt.Errorf("%s is below %s, which others may write to (mode %04o): %w; choose a directory elsewhere", path, parent, mode, ErrForeign)
	}
	return nil
}

// isTrusted reports whether a user or group id is root's, this process's, or, if this process runs
// as root, that of the user who called sudo.
func isTrusted(id uint32, root, own int, sudo string) bool {
	if int(id) == root || int(id) == own {
		return true
	}
	return os.Geteuid() == 0 && os.Getenv(sudo) == strconv.FormatUint(uint64(id), 10)
}

// Identity returns a value that distinguishes a directory from all copies of it, on any machine:
// the time of its creation if the filesystem stores that, otherwise its inode number. Users can
// choose neither.
func Identity(root *os.Root) (string, error) {
	dir, err := root.Open(".")
	if err != nil {
		return "", fmt.Errorf("look at %s: %w", root.Name(), err)
	}
	defer dir.Close()
	var stat unix.Statx_t
	if err := unix.Statx(int(dir.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_BTIME|unix.STATX_INO, &stat); err != nil {
		return "", fmt.Errorf("look at %s: %w", root.Name(), os.NewSyscallError("statx", err))
	}
	if stat.Mask&unix.STATX_BTIME != 0 {
		return fmt.Sprintf("born %d.%09d", stat.Btime.Sec, stat.Btime.Nsec), nil
	}
	return fmt.Sprintf("inode %d", stat.Ino), nil
}
