package localnode

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// hierarchies returns the mount points of all cgroup hierarchies, of both versions.
func hierarchies() ([]string, error) {
	mounts, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("cgroup", "cgroup2"))
	if err != nil {
		return nil, fmt.Errorf("list the mounts: %w", err)
	}
	var points []string
	for _, mount := range mounts {
		points = append(points, mount.Mountpoint)
	}
	return points, nil
}

// MountsBelow returns the mount points at and below a directory, the latest first.
func MountsBelow(dir string) ([]string, error) {
	mounts, err := mountinfo.GetMounts(func(mount *mountinfo.Info) (skip, stop bool) {
		return mount.Mountpoint != dir && !strings.HasPrefix(mount.Mountpoint, dir+"/"), false
	})
	if err != nil {
		return nil, fmt.Errorf("list the mounts: %w", err)
	}
	var points []string
	for _, mount := range slices.Backward(mounts) {
		points = append(points, mount.Mountpoint)
	}
	return points, nil
}

// unmountBelow unmounts everything at and below a directory. A mount that is still in use
// disappears with its last user.
func unmountBelow(dir string) error {
	for {
		points, err := MountsBelow(dir)
		if err != nil || len(points) == 0 {
			return err
		}
		progress := false
		var failed []error
		for _, point := range points {
			// The kernel appends this suffix if the mounted-on file was deleted.
			point = strings.TrimSuffix(point, "//deleted")
			if err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
				failed = append(failed, fmt.Errorf("unmount %s: %w", point, os.NewSyscallError("umount2", err)))
				continue
			}
			progress = true
		}
		if !progress {
			return errors.Join(failed...)
		}
	}
}
