package localnode

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"strconv"
	"strings"
)

// sysctl is a pattern of names below /proc/sys, with the range of values that the kernel accepts.
type sysctl struct {
	pattern   string
	low, high int64
}

// changedSysctls returns the sysctls that the components change, in the order in which they are
// restored. The kubelet sets the first six (k8s.io/component-helpers/node/util/sysctl), the CNI
// plugin ip_forward. A write to ip_forward also sets the forwarding of every interface and
// accept_redirects (net/ipv4/devinet.c, inet_forward_change), so these follow. The ranges are those
// of the kernel's tables: mm/util.c, mm/oom_kill.c, kernel/panic.c, security/keys/sysctl.c and
// net/ipv4/devinet.c.
func changedSysctls() []sysctl {
	return []sysctl{
		{"vm/overcommit_memory", 0, 2},
		{"vm/panic_on_oom", 0, 2},
		{"kernel/panic", math.MinInt32, math.MaxInt32},
		{"kernel/panic_on_oops", math.MinInt32, math.MaxInt32},
		{"kernel/keys/root_maxkeys", 1, math.MaxInt32},
		{"kernel/keys/root_maxbytes", 1, math.MaxInt32},
		{"net/ipv4/ip_forward", math.MinInt32, math.MaxInt32},
		{"net/ipv4/conf/*/forwarding", math.MinInt32, math.MaxInt32},
		{"net/ipv4/conf/all/accept_redirects", math.MinInt32, math.MaxInt32},
	}
}

// has reports whether the pattern matches a name.
func (s sysctl) has(name string) bool {
	matched, err := path.Match(s.pattern, name)
	return err == nil && matched && fs.ValidPath(name)
}

// checkSysctl returns an error unless the components change the named sysctl and it can have the
// value.
func checkSysctl(name string, value int64) error {
	for _, s := range changedSysctls() {
		if !s.has(name) {
			continue
		}
		if value < s.low || value > s.high {
			return fmt.Errorf("sysctl %s is %d, not %d to %d", name, value, s.low, s.high)
		}
		return nil
	}
	return fmt.Errorf("sysctl %q is not one that a node changes", name)
}

func openSysctls(m machine) (*os.Root, error) {
	root, err := os.OpenRoot(m.path("/proc/sys"))
	if err != nil {
		return nil, fmt.Errorf("open the sysctls: %w", err)
	}
	return root, nil
}

func readSysctl(root *os.Root, name string) (int64, error) {
	text, err := root.ReadFile(name)
	if err != nil {
		return 0, fmt.Errorf("read a sysctl: %w", err)
	}
	value, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read sysctl %s: %w", name, err)
	}
	return value, nil
}

// readSysctls returns the values of all sysctls that the components change.
func readSysctls(m machine) (map[string]int64, error) {
	root, err := openSysctls(m)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	values := map[string]int64{}
	for _, s := range changedSysctls() {
		names, err := fs.Glob(root.FS(), s.pattern)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", s.pattern, err)
		}
		for _, name := range names {
			if values[name], err = readSysctl(root, name); err != nil {
				return nil, err
			}
		}
	}
	return values, nil
}

// writeSysctls restores values. It does not write a value that is unchanged, and skips sysctls that
// no longer exist, such as those of an interface.
func writeSysctls(m machine, values map[string]int64) error {
	root, err := openSysctls(m)
	if err != nil {
		return err
	}
	defer root.Close()
	var failed []error
	for _, s := range changedSysctls() {
		for name, value := range values {
			if !s.has(name) {
				continue
			}
			now, err := readSysctl(root, name)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err == nil && now != value {
				err = root.WriteFile(name, fmt.Appendln(nil, value), 0)
			}
			if err != nil {
				failed = append(failed, fmt.Errorf("restore a sysctl: %w", err))
			}
		}
	}
	return errors.Join(failed...)
}
