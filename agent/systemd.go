package agent

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/kubepods"
	"pinfold.dev/pinfold/linux/systemd"
)

// Decisions wait no longer than systemdTimeout for systemd, which answers nothing while it reloads.
// After an error they do not wait for it until systemdPause has passed.
const (
	systemdTimeout = 500 * time.Millisecond
	systemdPause   = 2 * time.Second
)

// writer writes settings after it has told systemd of them. It is a [control.Kernel].
type writer struct {
	*kernel
	raised []string // the groups that have a raised quota
}

// Apply implements [control.Kernel]. The error of telling systemd is in systemdErr.
func (w writer) Apply(wanted map[string]cgroup.Wanted) cgroup.Outcome {
	_ = w.tellSystemd(wanted, w.raised)
	return w.groups.Apply(wanted)
}

// Effective implements [control.Kernel].
func (w writer) Effective(group string) (cpuset.Set, error) { return w.groups.Effective(group) }

// tellSystemd makes systemd set what is about to be written, if it manages the groups: otherwise it
// would undo that when it is reloaded. Raised quotas last for less than a second and are left out.
// What could not be told is told later. The error is that of the last attempt.
func (k *kernel) tellSystemd(wanted map[string]cgroup.Wanted, raised []string) error {
	if k.naming.Driver != kubepods.Systemd {
		return nil
	}
	for group, w := range wanted {
		if slices.Contains(raised, group) {
			w.Quota, w.Period = nil, nil
		}
		k.addUntold(group, w)
	}
	maps.DeleteFunc(k.untold, func(group string, _ cgroup.Wanted) bool { return !k.groups.Exists(group) })
	switch {
	case len(k.untold) == 0:
		k.systemdErr = nil
	case k.systemdErr == nil || time.Since(k.systemdFailed) > systemdPause:
		if k.systemdErr = k.setUnits(); k.systemdErr != nil {
			k.systemdFailed = time.Now()
		} else {
			k.untold = nil
		}
	}
	return k.systemdErr
}

// setUnits tells systemd what it has not been told.
func (k *kernel) setUnits() (err error) {
	if k.systemd != nil && !k.systemd.Connected() { // it has executed itself again
		k.systemd.Close()
		k.systemd = nil
	}
	if k.systemd == nil {
		if k.systemd, err = systemd.Connect(context.Background(), k.root); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), systemdTimeout)
	defer cancel()
	return k.systemd.Set(ctx, k.untold)
}

// addUntold adds settings that systemd must be told of. systemd needs quota and period together,
// and weights in the unit of version 2 (cgroup_cpu_weight_to_shares in src/core/cgroup.c of systemd
// 257).
func (k *kernel) addUntold(group string, w cgroup.Wanted) {
	if w.CPUs == nil && w.Quota == nil && w.Period == nil && w.Weight == nil && w.Idle == nil {
		return
	}
	if w.Weight != nil && k.groups.Layout().CPU == cgroup.V1 {
		weight := max(*w.Weight*100/1024, 1)
		w.Weight = &weight
	}
	all := k.untold[group]
	all.CPUs, all.Quota, all.Period = cmp.Or(w.CPUs, all.CPUs), cmp.Or(w.Quota, all.Quota), cmp.Or(w.Period, all.Period)
	all.Weight, all.Idle = cmp.Or(w.Weight, all.Weight), cmp.Or(w.Idle, all.Idle)
	if (all.Quota == nil) != (all.Period == nil) {
		if s, err := k.groups.ReadParts(group, cgroup.Parts{Bandwidth: true}); err == nil { // else it has ended
			all.Quota, all.Period = cmp.Or(all.Quota, &s.Quota), cmp.Or(all.Period, &s.Period)
		}
	}
	if k.untold == nil {
		k.untold = map[string]cgroup.Wanted{}
	}
	k.untold[group] = all
}
