package priority

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
	"pinfold.dev/pinfold/linux/feature"
)

// sysctl switches Group Identity on. Its first kernels, and its predecessor, do not have it.
const sysctl = "proc/sys/kernel/sched_group_identity_enabled"

// Lacking returns why mechanisms cannot be used on the machine with the given root directory, in
// words for users. The settings of a group tell which files the kernel has, and cores is the result
// of [CheckCores].
func Lacking(root string, groups *cgroup.FS, settings cgroup.Settings, cores error) map[colocation.Mechanism]string {
	lacking := map[colocation.Mechanism]string{}
	if settings.NoIdle {
		lacking[colocation.Idle] = (&feature.UnsupportedError{Feature: feature.Idle}).Error()
	}
	if why := lackingBVT(root, settings); why != "" {
		lacking[colocation.BVT] = why
	}
	if why := lackingCores(groups, cores); why != "" {
		lacking[colocation.CoreScheduling] = why
	}
	return lacking
}

func lackingBVT(root string, settings cgroup.Settings) string {
	if settings.NoBVT {
		return (&feature.UnsupportedError{Feature: feature.GroupIdentity}).Error()
	}
	value, err := os.ReadFile(filepath.Join(root, sysctl))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ""
	case err != nil:
		return fmt.Sprintf("it is not known whether Group Identity is on: %v", err)
	case strings.TrimSpace(string(value)) != "1":
		return "Group Identity is off: write 1 to /" + sysctl + ", while no program uses core scheduling"
	}
	return ""
}

// CheckCores returns nil if the kernel this process runs on schedules cores now. Otherwise the
// error is as that of [Of].
func CheckCores() error {
	_, err := Of(0)
	return err
}

func lackingCores(groups *cgroup.FS, err error) string {
	switch {
	case errors.Is(err, unix.ENODEV):
		return "no core of this machine has several hardware threads online, so nothing is beside online work"
	case errors.Is(err, unix.EINVAL):
		return (&feature.UnsupportedError{Feature: feature.CoreScheduling}).Error()
	case err != nil:
		return err.Error()
	}
	// The root group has the threads of the kernel, unless a container hides it.
	threads, err := cgrouptree.ThreadsIn(groups, groups.Dir(cgroup.CPU, "/"))
	switch {
	case err != nil:
		return err.Error()
	case len(threads) > 0 && threads[0] == 0:
		return hiddenProcesses
	}
	return ""
}
