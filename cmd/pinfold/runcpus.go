//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/linux/confine"
)

// choose returns how the command's CPUs are chosen; nil when it may use all that there
// are.
func (q *confinement) choose(stderr io.Writer) func(confine.Room) (cpuset.Set, error) {
	switch {
	case q.cpus != 0:
		return func(room confine.Room) (cpuset.Set, error) {
			m, err := readSysfs("/sys")
			if err != nil {
				return cpuset.Set{}, err
			}
			cpus, shared, err := q.place(m, room)
			if err == nil && !shared.IsEmpty() {
				fmt.Fprintf(stderr, "pinfold: too few CPUs are free of other runs: %s are shared with them\n", shared)
			}
			return cpus, err
		}
	case !q.cpuset.cpus.IsEmpty():
		return func(room confine.Room) (cpuset.Set, error) {
			m, err := readSysfs("/sys")
			if err != nil {
				return cpuset.Set{}, err
			}
			return q.cpuset.cpus, named(m, room, q.cpuset.cpus)
		}
	}
	return nil
}

// place chooses the CPUs for --cpus among those that this process may use and that are
// not isolated: without other runs' if there are enough, otherwise with them.
func (q *confinement) place(m *topology.Machine, room confine.Room) (cpus, shared cpuset.Set, err error) {
	usable := m.Online().Intersection(room.Parent).Intersection(room.Affinity).Difference(m.Isolated)
	index := placement.NewIndex(m)
	request := placement.Request{CPUs: int(q.cpus), FullCores: placement.FullCores(q.fullCores.value)}
	result, err := index.Place(usable.Difference(room.Taken), request)
	if err != nil && usable.Intersects(room.Taken) {
		result, err = index.Place(usable, request)
	}
	if err != nil {
		may := usable.String()
		if usable.IsEmpty() {
			may = "none"
		}
		return cpus, shared, fmt.Errorf("--cpus: %w: this process may use %s%s", err, may, without(m, room, usable))
	}
	return result.CPUs, result.CPUs.Intersection(room.Taken), nil
}

// without says why the usable CPUs are not all that the machine has.
func without(m *topology.Machine, room confine.Room, usable cpuset.Set) string {
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

// named checks the CPUs of --cpuset.
func named(m *topology.Machine, room confine.Room, cpus cpuset.Set) error {
	var errs []error
	wrong := func(cpus cpuset.Set, what string, args ...any) {
		if !cpus.IsEmpty() {
			errs = append(errs, fmt.Errorf("--cpuset: CPUs %s %s", cpus, fmt.Sprintf(what, args...)))
		}
	}
	online := m.Online()
	wrong(cpus.Difference(online).Intersection(m.Offline), "are offline: the online ones are %s", online)
	wrong(cpus.Difference(online).Difference(m.Offline), "are none of this machine's, which has %s", online.Union(m.Offline))
	wrong(cpus.Intersection(online).Difference(room.Parent), "are not in the cpuset of the control group around this process, which has %s", room.Parent)
	return errors.Join(errs...)
}
