package control

import (
	"cmp"
	"fmt"
	"slices"
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

// compare records the differences between the settings of a cgroup after the last round and now.
func (c *Control) compare(path string, ours, theirs cgroup.Settings) {
	record := func(field Field, ours, theirs any) {
		c.changed = append(c.changed, Foreign{Path: path, Field: field, Ours: fmt.Sprint(ours), Theirs: fmt.Sprint(theirs)})
	}
	if ours.CPUs != theirs.CPUs && !c.wentOffline(ours.CPUs, theirs.CPUs) {
		record(FieldCPUs, cpusText(ours.CPUs), cpusText(theirs.CPUs))
	}
	if is, was := theirs.Partition.Kind, ours.Partition.Kind; is != was && is != "" && was != "" {
		record(FieldPartition, was, is)
	}
	if ours.Period == 0 || theirs.Period == 0 { // an unknown container, whose bandwidth is not read
		return
	}
	before := len(c.changed)
	if ours.Quota != theirs.Quota {
		record(FieldQuota, quotaText(ours.Quota), quotaText(theirs.Quota))
	}
	if ours.Period != theirs.Period {
		record(FieldPeriod, ours.Period, theirs.Period)
	}
	if ours.Burst != theirs.Burst {
		record(FieldBurst, ours.Burst, theirs.Burst)
	}
	c.writes[path] += len(c.changed) - before
	if ours.Idle != theirs.Idle {
		record(FieldIdle, ours.Idle, theirs.Idle)
	}
	if ours.BVT != theirs.BVT {
		record(FieldBVT, ours.BVT, theirs.BVT)
	}
}

// wentOffline reports whether the difference is that the kernel removed offline CPUs.
func (c *Control) wentOffline(before, now cpuset.Set) bool {
	return c.index != nil && now == before.Intersection(c.machine().Online())
}

func cpusText(s cpuset.Set) string { return cmp.Or(s.String(), "none") }

func quotaText(quota time.Duration) string {
	if quota == bandwidth.Unlimited {
		return "unlimited"
	}
	return quota.String()
}

// undone returns the foreign changes that the decision undoes.
func (c *Control) undone(a *Decision) []Foreign {
	cpus := map[string]bool{} // cgroups whose CPUs are written
	for _, m := range a.Moves {
		cpus[m.Path] = true
	}
	for path := range a.Narrow {
		cpus[path] = true
	}
	var all []Foreign
	for _, f := range c.changed {
		w := a.Bandwidth[f.Path]
		switch {
		case f.Field == FieldCPUs && (cpus[f.Path] || a.Widen[f.Path].CPUs != nil),
			f.Field == FieldQuota && w.Quota != nil,
			f.Field == FieldPeriod && w.Period != nil,
			f.Field == FieldBurst && w.Burst != nil,
			f.Field == FieldIdle && w.Idle != nil,
			f.Field == FieldBVT && w.BVT != nil,
			f.Field == FieldPartition && (a.Release[f.Path].Partition != nil || a.Partitions[f.Path].Partition != nil):
			all = append(all, f)
		}
	}
	slices.SortFunc(all, func(x, y Foreign) int {
		return cmp.Or(cmp.Compare(x.Path, y.Path), cmp.Compare(x.Field, y.Field))
	})
	return all
}

// leaveForeign applies [OwnerOther]: it decides which cgroups' bandwidth is left to other writers
// and returns the changes that are newly left in force. A cgroup is the agent's again when its
// limit has changed.
func (c *Control) leaveForeign(all []Limited) (left []Foreign) {
	if c.config.QuotaOwner != OwnerOther {
		return nil
	}
	changed := map[string][]Foreign{}
	for _, f := range c.changed {
		if f.Field == FieldQuota || f.Field == FieldPeriod || f.Field == FieldBurst {
			f.Left = true
			changed[f.Path] = append(changed[f.Path], f)
		}
	}
	owned := map[string]bandwidth.Limits{}
	for i := range all {
		l := &all[i]
		present, foreign := c.view.Settings[l.Path], changed[l.Path]
		if !c.recovered && !l.mayBeOurs(present) {
			foreign = []Foreign{{Path: l.Path, Field: FieldQuota, Ours: quotaText(l.want.Quota), Theirs: quotaText(present.Quota), Left: true}}
		}
		limit := l.Base.WithoutBurst()
		was, owns := c.foreignOwned[l.Path]
		switch {
		case owns && was == limit:
			owned[l.Path] = limit
		case len(foreign) > 0 && !l.resizing && limitChanges(present, l.want) != (cgroup.Wanted{}):
			owned[l.Path] = limit
			left = append(left, foreign...)
		}
	}
	c.foreignOwned = owned
	return left
}

// mayBeOurs reports whether the kubelet or an earlier agent may have set the quota and period that
// the agent finds at its start, including a raised quota, and a quota that was removed from a pod
// which had exclusive CPUs then.
func (l *Limited) mayBeOurs(present cgroup.Settings) bool {
	if present.Quota == bandwidth.Unlimited {
		return true
	}
	for _, b := range []bandwidth.Limits{l.want, l.kubelet} {
		if b.Quota == present.Quota && b.Period == present.Period {
			return true
		}
	}
	return present.Period == l.Base.Period && present.Quota >= l.Base.Quota && present.Quota <= l.Highest
}
