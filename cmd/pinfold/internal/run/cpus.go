//go:build linux

package run

import (
	"errors"
	"fmt"
	"io"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/linux/confine"
	"pinfold.dev/pinfold/linux/sysfs"
)

// choose returns a function that chooses the command's CPUs, nil if it may use all.
func (o *options) choose(stderr io.Writer) func(confine.Room) (cpuset.Set, error) {
	if o.cpus == 0 && o.cpuset == "" {
		return nil
	}
	return func(room confine.Room) (cpuset.Set, error) {
		m, _, err := sysfs.Host(room.Parent)
		if err != nil {
			return cpuset.Set{}, fmt.Errorf("read the machine from %s: %w", sysfs.HostRoot, err)
		}
		if o.cpus == 0 {
			cpus, err := cpuset.ParseTyped(o.cpuset, m.Online())
			if err != nil {
				return cpus, fmt.Errorf("--cpuset: %w", err)
			}
			return cpus, checkCPUs(m, room, cpus)
		}
		cpus, shared, err := o.place(m, room)
		if err == nil && !shared.IsEmpty() {
			fmt.Fprintf(stderr, "pinfold: too few CPUs are free of other runs: CPUs %s are shared with them\n", shared)
		}
		return cpus, err
	}
}

// place chooses the CPUs for --cpus among those that this process may use and that are not
// isolated. It shares CPUs with other runs only if there are too few without them.
func (o *options) place(m *topology.Machine, room confine.Room) (cpus, shared cpuset.Set, err error) {
	usable := m.Online().Intersection(room.Parent).Intersection(room.Affinity).Difference(m.Isolated)
	index := placement.NewIndex(m)
	request := placement.Request{CPUs: o.cpus, FullCores: o.fullCores}
	result, err := index.Place(usable.Difference(room.Taken), request)
	if err != nil && usable.Intersects(room.Taken) {
		result, err = index.Place(usable, request)
	}
	if err != nil {
		may := usable.String()
		if usable.IsEmpty() {
			may = "none"
		}
		return cpus, shared, fmt.Errorf("--cpus: %w: this process may use %s%s", err, may, whyUnusable(m, room, usable))
	}
	return result.CPUs, result.CPUs.Intersection(room.Taken), nil
}

// whyUnusable says why CPUs of the machine are not usable.
func whyUnusable(m *topology.Machine, room confine.Room, usable cpuset.Set) string {
	text := ""
	note := func(cpus cpuset.Set, why string) {
		if cpus = cpus.Difference(usable); !cpus.IsEmpty() {
			text += fmt.Sprintf("; %s %s", cpus, why)
		}
	}
	note(m.Offline, "are offline")
	note(m.Online().Intersection(m.Isolated), "are isolated (isolcpus): name them with --cpuset")
	note(m.Online().Difference(room.Parent), "are not in the cpuset of the control group around it")
	note(m.Online().Difference(room.Affinity).Difference(m.Isolated), "are not in its affinity (taskset)")
	return text
}

// checkCPUs checks the CPUs of --cpuset.
func checkCPUs(m *topology.Machine, room confine.Room, cpus cpuset.Set) error {
	var errs []error
	reject := func(cpus cpuset.Set, why string, args ...any) {
		if !cpus.IsEmpty() {
			errs = append(errs, fmt.Errorf("--cpuset: CPUs %s %s", cpus, fmt.Sprintf(why, args...)))
		}
	}
	online := m.Online()
	reject(cpus.Difference(online).Intersection(m.Offline), "are offline: the online ones are %s", online)
	reject(cpus.Difference(online).Difference(m.Offline), "do not exist on this machine, which has %s", online.Union(m.Offline))
	reject(cpus.Intersection(online).Difference(room.Parent), "are not in the cpuset of the control group around this process, which has %s", room.Parent)
	return errors.Join(errs...)
}
