package priority

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/internal/atomicfile"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
)

// Cookies gives the threads of batch work one cookie, and takes it from others. The cookie is kept
// in a file, so that a later process recognises it.
type Cookies struct {
	groups *cgroup.FS
	file   string
	ours   Cookie // 0 if there was none yet
}

// OpenCookies returns the cookie that an earlier process kept in the file, if there is one.
func OpenCookies(groups *cgroup.FS, file string) (*Cookies, error) {
	c := &Cookies{groups: groups, file: file}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the core-scheduling cookie of batch pods: %w", err)
	}
	ours, err := strconv.ParseUint(strings.TrimSpace(string(text)), 16, 64)
	if err != nil {
		return nil, fmt.Errorf("%s contains %q, not a core-scheduling cookie: remove it", file, text)
	}
	c.ours = Cookie(ours)
	return c, nil
}

// Used reports whether threads may have the cookie.
func (c *Cookies) Used() bool { return c.ours != 0 }

// Give gives the cookie to all threads of the groups and the groups below. Those that start
// meanwhile may be missed, unless a thread with the cookie starts them.
func (c *Cookies) Give(groups []string) error {
	var with, without []int
	if err := c.each(groups, func(thread int, cookie Cookie) {
		if cookie == c.ours && cookie != 0 {
			with = append(with, thread)
		} else {
			without = append(without, thread)
		}
	}); err != nil || len(without) == 0 {
		return err
	}
	if len(with) > 0 {
		return Join(with[0], without)
	}
	return Create(without, func(made Cookie) error {
		text := strconv.FormatUint(uint64(made), 16) + "\n"
		if err := atomicfile.Write(c.file, []byte(text), atomicfile.Options{Perm: 0o600, Suffix: ".new"}); err != nil {
			return fmt.Errorf("keep the core-scheduling cookie of batch pods: %w", err)
		}
		c.ours = made
		return nil
	})
}

// Take takes the cookie from all threads of the groups and the groups below. Cookies that are not
// from Give are left.
func (c *Cookies) Take(groups []string) error {
	if !c.Used() {
		return nil
	}
	var with []int
	err := c.each(groups, func(thread int, cookie Cookie) {
		if cookie == c.ours {
			with = append(with, thread)
		}
	})
	if err != nil || len(with) == 0 {
		return err
	}
	return clearCookies(with)
}

// Forget removes the file, when no thread has the cookie.
func (c *Cookies) Forget() error {
	c.ours = 0
	if err := os.Remove(c.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget the core-scheduling cookie of batch pods: %w", err)
	}
	return nil
}

// each calls f for each thread of the groups and the groups below. Threads that end meanwhile are
// skipped.
func (c *Cookies) each(groups []string, f func(thread int, cookie Cookie)) error {
	return EachThread(c.groups, groups, func(thread int) error {
		cookie, err := Of(thread)
		if errors.Is(err, unix.ESRCH) {
			return nil
		}
		if err == nil {
			f(thread, cookie)
		}
		return err
	})
}

// EachThread calls f for each thread of some groups and the groups below, and joins the errors.
// Groups and threads may end meanwhile.
func EachThread(fs *cgroup.FS, groups []string, f func(thread int) error) error {
	var errs []error
	for _, group := range groups {
		dirs, err := cgrouptree.DirsBelow(fs.Dir(cgroup.CPU, group))
		errs = append(errs, err)
		for _, dir := range dirs {
			threads, err := cgrouptree.ThreadsIn(fs, dir)
			errs = append(errs, err)
			for _, thread := range threads {
				if thread == 0 {
					errs = append(errs, fmt.Errorf("group %s: %s", group, hiddenProcesses))
					break
				}
				errs = append(errs, f(thread))
			}
		}
	}
	return errors.Join(errs...)
}

// hiddenProcesses is what is wrong if the kernel shows processes as 0.
const hiddenProcesses = "its processes are not visible here: run in the PID namespace of the host (hostPID: true)"
