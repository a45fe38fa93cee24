package cgroup

import (
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"

	"pinfold.dev/pinfold/linux/cgroup/internal/kernfile"
)

func FuzzMountinfo(f *testing.F) {
	f.Add("31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n")
	f.Add("1 1 0:1 / / rw - x y z\n2 1 0:1 /.. /a\\040b ro - cgroup cgroup rw,cpu\n")
	f.Fuzz(func(t *testing.T, text string) {
		mounts, err := mountinfo.GetMountsFromReader(strings.NewReader(text), nil)
		if err == nil && len(visible(mounts)) > len(mounts) {
			t.Error("more visible mounts than mounts")
		}
	})
}

func FuzzFiles(f *testing.F) {
	for _, s := range []string{"max 100000", "20000 100000", "-1", "0", "9223372036854775807 1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if max, err := kernfile.CPUMax(text); err == nil {
			if again, err := kernfile.CPUMax(formatCPUMax(max)); err != nil || again != max {
				t.Errorf("cpu.max %q reads %v, and written %v, %v", text, max, again, err)
			}
		}
		if quota, err := kernfile.Quota(text); err == nil {
			if again, err := kernfile.Quota(formatQuota(quota)); err != nil || again != quota {
				t.Errorf("quota %q reads %v, and written %v, %v", text, quota, again, err)
			}
		}
	})
}
