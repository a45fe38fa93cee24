package control

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup"
)

// Field is a setting that another writer may change.
type Field string

// The fields.
const (
	FieldCPUs   Field = "cpuset"
	FieldQuota  Field = "quota"
	FieldPeriod Field = "period"
	FieldBurst  Field = "burst"
	FieldIdle   Field = "idle"
	FieldBVT    Field = "bvt"
	// FieldPartition is the kind of a cpuset partition.
	FieldPartition Field = "partition"
)

// Foreign is a setting that was changed by another writer.
type Foreign struct {
	Path         string
	Field        Field
	Ours, Theirs string
	// Left is set if the other writer's value stays in force, because of [OwnerOther].
	Left bool
}

func (f Foreign) String() string {
	done := "the agent restores it"
	if f.Left {
		done = "the agent leaves it (--quota-owner=other)"
	}
	return fmt.Sprintf("another program changed %s of %s from %s to %s; %s. %s", f.Field, f.Path, f.Ours, f.Theirs, done, f.suspects())
}

// suspects names the programs that are known to write such a setting.
func (f Foreign) suspects() string {
	switch f.Field {
	case FieldCPUs:
		return "It may be the kubelet (cpuManagerPolicy other than none), another NRI plugin or node agent, or an administrator"
	case FieldQuota, FieldPeriod:
		return "It may be the kubelet (at a resize), systemd (when a unit starts after a daemon-reload), another node agent, or an administrator"
	}
	return "It may be another node agent, systemd, or an administrator"
}

// watch finds the changes by other writers.
type watch struct {
	expected map[string]cgroup.Settings // of each cgroup after the last round
	changed  []Foreign                  // differences from expected in the last observation
}

// compare records the differences between the settings of a cgroup after the last round and now,
// and returns them.
func (w *watch) compare(path string, theirs cgroup.Settings, online cpuset.Set) []Foreign {
	ours, known := w.expected[path]
	if !known {
		return nil
	}
	before := len(w.changed)
	record := func(field Field, ours, theirs any) {
		w.changed = append(w.changed, Foreign{Path: path, Field: field, Ours: fmt.Sprint(ours), Theirs: fmt.Sprint(theirs)})
	}
	wentOffline := theirs.CPUs == ours.CPUs.Intersection(online) // version 1 removes such CPUs
	if ours.CPUs != theirs.CPUs && !wentOffline {
		record(FieldCPUs, cpusText(ours.CPUs), cpusText(theirs.CPUs))
	}
	if is, was := theirs.Partition.Kind, ours.Partition.Kind; is != was && is != "" && was != "" {
		record(FieldPartition, was, is)
	}
	if ours.Period == 0 || theirs.Period == 0 { // an unknown container, whose bandwidth is not read
		return w.changed[before:]
	}
	if ours.Quota != theirs.Quota {
		record(FieldQuota, quotaText(ours.Quota), quotaText(theirs.Quota))
	}
	if ours.Period != theirs.Period {
		record(FieldPeriod, ours.Period, theirs.Period)
	}
	if ours.Burst != theirs.Burst {
		record(FieldBurst, ours.Burst, theirs.Burst)
	}
	if ours.Idle != theirs.Idle {
		record(FieldIdle, ours.Idle, theirs.Idle)
	}
	if ours.BVT != theirs.BVT {
		record(FieldBVT, ours.BVT, theirs.BVT)
	}
	return w.changed[before:]
}

func cpusText(s cpuset.Set) string { return cmp.Or(s.String(), "none") }

func quotaText(quota time.Duration) string {
	if quota == bandwidth.Unlimited {
		return "unlimited"
	}
	return quota.String()
}

// limits returns the cgroups whose quota, period or burst was changed; true if it was not the burst alone.
func (w *watch) limits() map[string]bool {
	paths := map[string]bool{}
	for _, f := range w.changed {
		if f.isLimit() {
			paths[f.Path] = paths[f.Path] || f.Field != FieldBurst
		}
	}
	return paths
}

func (f Foreign) isLimit() bool {
	return f.Field == FieldQuota || f.Field == FieldPeriod || f.Field == FieldBurst
}

// undone returns the foreign changes that the decision undoes, without those of the kubelet at a resize.
func (w *watch) undone(r *groups.Round, d *Decision) []Foreign {
	var all []Foreign
	for _, f := range w.changed {
		b := d.Bandwidth[f.Path]
		switch {
		case f.isLimit() && slices.ContainsFunc(r.Planned, func(l groups.Planned) bool { return l.Path == f.Path && r.ByKubelet(&l) }):
		case f.Field == FieldCPUs && d.WritesCPUs(f.Path),
			f.Field == FieldQuota && b.Quota != nil,
			f.Field == FieldPeriod && b.Period != nil,
			f.Field == FieldBurst && b.Burst != nil,
			f.Field == FieldIdle && b.Idle != nil,
			f.Field == FieldBVT && b.BVT != nil,
			f.Field == FieldPartition && (d.Release[f.Path].Partition != nil || d.Partitions[f.Path].Partition != nil):
			all = append(all, f)
		}
	}
	slices.SortFunc(all, func(x, y Foreign) int {
		return cmp.Or(cmp.Compare(x.Path, y.Path), cmp.Compare(x.Field, y.Field))
	})
	return all
}

// left returns the foreign changes of cgroups that are newly left to other writers. One without a
// known change was found with a quota that is not the agent's.
func (w *watch) left(r *groups.Round, newly []*groups.Planned) (all []Foreign) {
	for _, l := range newly {
		before := len(all)
		for _, f := range w.changed {
			if f.Path == l.Path && f.isLimit() {
				f.Left = true
				all = append(all, f)
			}
		}
		if len(all) == before {
			all = append(all, Foreign{Path: l.Path, Field: FieldQuota, Ours: quotaText(l.Want.Quota), Theirs: quotaText(r.Settings[l.Path].Quota), Left: true})
		}
	}
	return all
}
