package node

import (
	"cmp"
	"fmt"
	"maps"
	"time"

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

// Watch finds changes of cgroups by other writers.
type Watch struct {
	// expected are the settings of each cgroup after the last round.
	expected map[string]cgroup.Settings
	// Changed are the differences from these in the last observation.
	Changed []Foreign
}

// Expect makes settings those after a round, except of the cgroups that could not be written.
func (w *Watch) Expect(settings map[string]cgroup.Settings, failed map[string]error) {
	w.Changed = nil
	w.expected = maps.Clone(settings)
	for path := range failed {
		delete(w.expected, path)
	}
}

// Expects reports whether the settings of a cgroup after the last round are known.
func (w *Watch) Expects(path string) bool {
	_, ok := w.expected[path]
	return ok
}

// Observe records the differences between the settings of a cgroup after the last round and now,
// and returns how many of quota, period and burst differ. online are the CPUs that are online.
func (w *Watch) Observe(path string, theirs cgroup.Settings, online cpuset.Set) (bandwidth int) {
	ours, ok := w.expected[path]
	if !ok {
		return 0
	}
	record := func(field Field, ours, theirs any) {
		w.Changed = append(w.Changed, Foreign{Path: path, Field: field, Ours: fmt.Sprint(ours), Theirs: fmt.Sprint(theirs)})
	}
	if ours.CPUs != theirs.CPUs && theirs.CPUs != ours.CPUs.Intersection(online) {
		record(FieldCPUs, CPUsText(ours.CPUs), CPUsText(theirs.CPUs))
	}
	if is, was := theirs.Partition.Kind, ours.Partition.Kind; is != was && is != "" && was != "" {
		record(FieldPartition, was, is)
	}
	if ours.Period == 0 || theirs.Period == 0 { // an unknown container, whose bandwidth is not read
		return 0
	}
	before := len(w.Changed)
	if ours.Quota != theirs.Quota {
		record(FieldQuota, QuotaText(ours.Quota), QuotaText(theirs.Quota))
	}
	if ours.Period != theirs.Period {
		record(FieldPeriod, ours.Period, theirs.Period)
	}
	if ours.Burst != theirs.Burst {
		record(FieldBurst, ours.Burst, theirs.Burst)
	}
	bandwidth = len(w.Changed) - before
	if ours.Idle != theirs.Idle {
		record(FieldIdle, ours.Idle, theirs.Idle)
	}
	if ours.BVT != theirs.BVT {
		record(FieldBVT, ours.BVT, theirs.BVT)
	}
	return bandwidth
}

// CPUsText returns a set of CPUs in words.
func CPUsText(s cpuset.Set) string { return cmp.Or(s.String(), "none") }

// QuotaText returns a quota in words.
func QuotaText(quota time.Duration) string {
	if quota == bandwidth.Unlimited {
		return "unlimited"
	}
	return quota.String()
}
