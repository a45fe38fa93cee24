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

// ErrForeign says that somebody else can change a directory or a file.
var ErrForeign = errors.New("another user can change it")

// maxLinks bounds symbolic links on a path, as the kernel does (path_resolution(7)).
const maxLinks = 40

// Open opens a directory that only this user can change. Its name, as [os.Root.Name] has
// it, is absolute and free of symbolic links. A symbolic link is not taken for the
// directory that it leads to.
func Open(dir string) (*os.Root, error) {
	path, err := resolveParents(dir)
	if err != nil {
		return nil, err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return nil, fmt.Errorf("open a directory: %w", err)
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return nil, fmt.Errorf("%s is a symbolic link: name the directory itself", dir)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("open a directory: %w", err)
	}
	if err := checkSame(root, ".", info); err != nil {
		_ = root.Close() // read only
		return nil, err
	}
	return root, nil
}

// Protect takes all rights to a directory of this user's from others. It refuses one that
// belongs to another user, and a symbolic link.
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
	if owner := info.Sys().(*syscall.Stat_t).Uid; int(owner) != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d, and this is user %d: %w", dir, owner, os.Geteuid(), ErrForeign)
	}
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	return file.Chmod(0o700)
}

// checkSame refuses what was opened when it is not what was looked at, or not this user's.
func checkSame(root *os.Root, name string, looked fs.FileInfo) error {
	opened, err := root.Stat(name)
	if err != nil {
		return fmt.Errorf("look at %s: %w", root.Name(), err)
	}
	path := filepath.Join(root.Name(), name)
	if !os.SameFile(looked, opened) {
		return fmt.Errorf("%s was replaced while it was opened: %w", path, ErrForeign)
	}
	return check(path, opened)
}

// check refuses a directory or a file that another user can write.
func check(path string, info fs.FileInfo) error {
	owner := info.Sys().(*syscall.Stat_t).Uid
	if int(owner) != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d, and this is user %d: %w", path, owner, os.Geteuid(), ErrForeign)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s may be written by its group or by others (mode %04o): %w", path, info.Mode().Perm(), ErrForeign)
	}
	return nil
}

// resolveParents follows the symbolic links above the last element of a path, and
// refuses a way that another user can change.
func resolveParents(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("find %s: %w", path, err)
	}
	at, rest := "/", elements(path)
	for links := 0; len(rest) > 1; {
		name := rest[0]
		rest = rest[1:]
		if name == ".." { // of a link's target
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

// elements splits a path, and leaves out what means nothing.
func elements(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(e string) bool { return e == "" || e == "." })
}

// checkParent refuses a directory, or a link to one, by which somebody else could put
// something in the place of what is below it.
func checkParent(path, parent string, info fs.FileInfo) error {
	stat := info.Sys().(*syscall.Stat_t)
	if !isTrusted(stat.Uid, 0, os.Geteuid(), "SUDO_UID") {
		return fmt.Errorf("%s is below %s, which belongs to user %d: %w; choose a directory elsewhere", path, parent, stat.Uid, ErrForeign)
	}
	if info.Mode()&(fs.ModeSymlink|fs.ModeSticky) != 0 {
		return nil // the mode of a link means nothing; in a sticky directory only owners rename
	}
	mode := info.Mode().Perm()
	if mode&0o002 != 0 || mode&0o020 != 0 && !isTrusted(stat.Gid, 0, os.Getegid(), "SUDO_GID") {
		return fmt.Errorf("%s is below %s, which others may write to (mode %04o): %w; choose a directory elsewhere", path, parent, mode, ErrForeign)
	}
	return nil
}

// isTrusted reports whether a user or a group is root's, this process's, or, for root,
// that of the user who called sudo.
func isTrusted(id uint32, root, own int, sudo string) bool {
	if int(id) == root || int(id) == own {
		return true
	}
	return os.Geteuid() == 0 && os.Getenv(sudo) == strconv.FormatUint(uint64(id), 10)
}

// Identity returns what tells a directory from every copy of it, on the same machine or
// another: when it was made, where the filesystem remembers that, else its inode number.
// Nobody can choose either.
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
