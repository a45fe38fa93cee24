package doctor

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"pinfold.dev/pinfold/linux/cgroup"
)

// kernel looks for what Pinfold's settings need of the kernel.
func (x *examination) kernel(context.Context) {
	release, found, err := x.read("proc/sys/kernel/osrelease")
	if err != nil || !found {
		x.add("release", Skipped, "there is no /proc/sys/kernel/osrelease", "give --host-root the directory at which the host's root is mounted")
	} else {
		x.add("release", OK, "Linux "+release, "")
	}
	x.bandwidth(release)
	x.schedulers()
}

// bandwidth looks at the files of a group rather than at the release, because
// distributions take features back into older kernels.
func (x *examination) bandwidth(release string) {
	if x.sample == "" {
		x.add("quota and burst", Skipped, "there is no group to look at", "start the kubelet and ask again")
		return
	}
	settings, err := x.groups.Read(x.sample)
	if err != nil {
		do := "build the kernel with CONFIG_CFS_BANDWIDTH and CONFIG_CPUSETS"
		if errors.Is(err, cgroup.ErrNotEnabled) {
			do = "enable the controllers cpu and cpuset in cgroup.subtree_control of the groups above"
		}
		x.add("quota", Problem, err.Error(), do)
		return
	}
	x.add("quota", OK, "limits are enforced", "")
	x.has("CPU Burst", !settings.NoBurst, "5.14", "time that a container does not use is lost to it")
	stat, err := x.groups.Stat(x.sample)
	x.has("statistics of burst", err == nil && !stat.NoBursts, "5.16", "how often bursts are used is not known")
	x.has("cpu.idle", !settings.NoIdle, "5.15", "batch pods cannot be put behind all others")
	if x.groups.Layout().CPU == cgroup.V2 && !settings.NoBurst && before(release, 6, 10) {
		x.add("burst after quota", Note, "kernels before 6.10 may corrupt cpu.max.burst when cpu.max is written",
			"nothing: the agent reads burst back and repairs it")
	}
}

func (x *examination) has(feature string, there bool, since, without string) {
	if there {
		x.add(feature, OK, "the kernel has it", "")
		return
	}
	x.add(feature, Note, "the kernel does not have it: "+without, "use Linux "+since+" or newer to have it")
}

// schedulers looks for what co-location can use.
func (x *examination) schedulers() {
	config, from := x.kernelConfig()
	for _, feature := range []struct{ check, option, since string }{
		{"core scheduling", "CONFIG_SCHED_CORE", "5.14"},
		{"sched_ext", "CONFIG_SCHED_CLASS_EXT", "6.12"},
	} {
		switch {
		case from == "":
			x.add(feature.check, Skipped, "the kernel's configuration cannot be read",
				"nothing; it is used for co-location only")
		case strings.Contains(config, "\n"+feature.option+"=y\n"):
			x.add(feature.check, OK, "the kernel has it", "")
		default:
			x.add(feature.check, Note, fmt.Sprintf("%s says that the kernel was built without %s", from, feature.option),
				"nothing, unless batch pods run on this node: then use a kernel with it (Linux "+feature.since+" or newer)")
		}
	}
}

// before compares a release with a version; a release that cannot be read is new.
func before(release string, major, minor int) bool {
	first, rest, _ := strings.Cut(release, ".")
	second, _, _ := strings.Cut(rest, ".")
	second, _, _ = strings.Cut(second, "-")
	a, err := strconv.Atoi(first)
	if err != nil {
		return false
	}
	b, err := strconv.Atoi(second)
	return err == nil && (a < major || a == major && b < minor)
}
