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
)

// Foreign is a setting that was changed by another writer.
type Foreign struct {
	Path  string
	Field Field
	// Ours is what the group had, Theirs what was found.
	Ours, Theirs string
	// Left says that it stays as it is, because quota is theirs.
	Left bool
}

func (f Foreign) String() string {
	done := "it is put back"
	if f.Left {
		done = "it is left to them (--quota-owner=other)"
	}
	return fmt.Sprintf("%s of %s was changed from %s to %s by somebody else; %s. %s",
		f.Field, f.Path, f.Ours, f.Theirs, done, f.suspects())
}

// suspects says who is known to write such a setting.
func (f Foreign) suspects() string {
	switch f.Field {
	case FieldCPUs:
		return "It may be the kubelet (cpuManagerPolicy other than none), another NRI plugin or node agent, or an administrator"
	case FieldQuota, FieldPeriod:
		return "It may be the kubelet (at a resize), systemd (at daemon-reload), another node agent, or an administrator"
	}
	return "It may be another node agent, systemd, or an administrator"
}

// compare notes what is different from what a group had after the last round.
func (c *Control) compare(path string, ours, theirs cgroup.Settings) {
	note := func(field Field, ours, theirs any) {
		c.changed = append(c.changed, Foreign{Path: path, Field: field, Ours: fmt.Sprint(ours), Theirs: fmt.Sprint(theirs)})
	}
	if ours.CPUs != theirs.CPUs && !c.wentOffline(ours.CPUs, theirs.CPUs) {
		note(FieldCPUs, orNone(ours.CPUs), orNone(theirs.CPUs))
	}
	if ours.Period == 0 || theirs.Period == 0 { // bandwidth was not read: no known container
		return
	}
	noted := len(c.changed)
	if ours.Quota != theirs.Quota {
		note(FieldQuota, quotaText(ours), quotaText(theirs))
	}
	if ours.Period != theirs.Period {
		note(FieldPeriod, ours.Period, theirs.Period)
	}
	if ours.Burst != theirs.Burst {
		note(FieldBurst, ours.Burst, theirs.Burst)
	}
	c.writes[path] += len(c.changed) - noted
	if ours.Idle != theirs.Idle {
		note(FieldIdle, ours.Idle, theirs.Idle)
	}
}

// wentOffline reports whether the kernel itself has taken out CPUs.
func (c *Control) wentOffline(before, now cpuset.Set) bool {
	return c.index != nil && now == before.Intersection(c.machine().Online())
}

func orNone(s cpuset.Set) string {
	if s.IsEmpty() {
		return "none"
	}
	return s.String()
}

func quotaText(s cgroup.Settings) string { return durationText(s.Quota) }

func durationText(quota time.Duration) string {
	if quota == bandwidth.Unlimited {
		return "unlimited"
	}
	return quota.String()
}

func (a *Actions) narrows(path string) bool { _, ok := a.Narrow[path]; return ok }

// undone are the foreign changes that the actions take back.
func (c *Control) undone(a *Actions) []Foreign {
	moved := map[string]bool{}
	for _, m := range a.Moves {
		moved[m.Path] = true
	}
	var all []Foreign
	for _, f := range c.changed {
		w := a.Rest[f.Path]
		switch {
		case f.Field == FieldCPUs && (moved[f.Path] || a.Widen[f.Path].CPUs != nil || a.narrows(f.Path)),
			f.Field == FieldQuota && w.Quota != nil,
			f.Field == FieldPeriod && w.Period != nil,
			f.Field == FieldBurst && w.Burst != nil,
			f.Field == FieldIdle && w.Idle != nil:
			all = append(all, f)
		}
	}
	slices.SortFunc(all, func(x, y Foreign) int {
		return cmp.Or(cmp.Compare(x.Path, y.Path), cmp.Compare(x.Field, y.Field))
	})
	return all
}
