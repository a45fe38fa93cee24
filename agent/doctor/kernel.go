package doctor

import (
	"context"
	"errors"

	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
	"pinfold.dev/pinfold/linux/feature"
	"pinfold.dev/pinfold/linux/priority"
)

// kernel checks the kernel's version and features.
func (x *examination) kernel(context.Context) {
	release, found, err := x.read("proc/sys/kernel/osrelease")
	if err != nil || !found {
		x.add("release", Skipped, "there is no /proc/sys/kernel/osrelease", "give --host-root the directory at which the host's root is mounted")
	} else {
		x.add("release", OK, "Linux "+release, "")
	}
	x.bandwidth()
	x.mechanisms()
}

// bandwidth checks the files of a cgroup rather than the release, because distributions port
// features back to older kernels.
func (x *examination) bandwidth() {
	if x.groups == nil {
		return // said above
	}
	if x.sample == "" {
		x.add("quota and burst", Skipped, "there is no control group to check", "start the kubelet and run doctor again")
		return
	}
	settings, err := x.groups.Read(x.sample)
	if err != nil {
		do := "build the kernel with CONFIG_CFS_BANDWIDTH and CONFIG_CPUSETS"
		if errors.Is(err, cgroup.ErrNotEnabled) {
			do = "enable the controllers cpu and cpuset in cgroup.subtree_control of the parent groups"
		}
		x.add("quota", Problem, err.Error(), do)
		return
	}
	x.add("quota", OK, "limits are enforced", "")
	var off *feature.UnsupportedError
	if errors.As(x.groups.CheckBurst(), &off) && !settings.NoBurst {
		x.add(feature.Burst.Name, Note, "it is switched off: "+feature.Burst.Instead, off.Do)
	} else {
		x.feature(feature.Burst, !settings.NoBurst)
	}
	if stat, err := cgroupstat.Read(x.groups, x.sample); err == nil {
		x.feature(feature.BurstStatistics, !stat.NoBursts)
	} else {
		x.add(feature.BurstStatistics.Name, Skipped, err.Error(), "make cpu.stat readable")
	}
	if err := x.groups.CheckPartitions(); err != nil {
		x.add("cpuset partitions", Note, err.Error(), "nothing, unless the agent is to run with --partition")
	} else {
		x.add("cpuset partitions", OK, "the kernel has them", "")
	}
}

// mechanisms explains what can put batch pods behind all others.
func (x *examination) mechanisms() {
	if x.groups == nil {
		return // said above
	}
	if x.sample == "" {
		return // said above
	}
	settings, err := x.groups.ReadParts(x.sample, cgroup.Parts{Idle: true, BVT: true})
	if err != nil {
		x.add("batch pods", Problem, err.Error(), "make the files of this control group readable")
		return
	}
	lacking := priority.Lacking(x.Root, x.groups, settings, x.Cores)
	if x.NoScheduler != nil {
		lacking[colocation.SchedExt] = x.NoScheduler.Error()
	}
	auto, _ := colocation.ParsePriority("auto")
	best := auto.Choose(func(m colocation.Mechanism) bool { return lacking[m] != "" })
	for _, m := range colocation.Mechanisms() {
		check := "batch: " + string(m)
		switch {
		case best.Uses(m):
			x.add(check, OK, "available; --batch-priority=auto uses it", "")
		case lacking[m] == "":
			x.add(check, OK, "available", "")
		default:
			x.add(check, OK, "not available: "+lacking[m], "")
		}
	}
	if len(best.Use) == 0 {
		x.add("batch pods", Note, "they cannot be put behind all others", feature.Idle.Needs()+" for cpu.idle")
	}
}

// feature adds the result for a feature.
func (x *examination) feature(f *feature.Feature, found bool) {
	if found {
		x.add(f.Name, OK, "the kernel has it", "")
		return
	}
	x.add(f.Name, Note, "the kernel does not have it: "+f.Instead, f.Needs()+" to have it")
}
