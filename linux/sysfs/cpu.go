package sysfs

import (
	"fmt"

	"pinfold.dev/pinfold/core/cpuset"
)

// cpuSets reads which CPUs there are: online, present (online or not) and
// isolated.
func (t tree) cpuSets() (online, present, isolated cpuset.Set, err error) {
	dirs, err := t.cpuDirs()
	if err != nil {
		return online, present, isolated, err
	}
	online, fromFile, err := t.cpuOnline()
	if err == nil && !fromFile {
		online, err = t.onlineOf(dirs)
	}
	if err != nil {
		return online, present, isolated, err
	}
	if online.IsEmpty() {
		return online, present, isolated, fmt.Errorf("%s/online: no CPU is online; is this the root of a /sys tree?", cpuRoot)
	}
	present, ok, err := t.cpuPresent()
	switch {
	case err != nil:
		return online, present, isolated, err
	case !ok:
		present = dirs
	case !online.IsSubsetOf(present):
		return online, present, isolated, contradiction("%s/online lists CPUs %q, which %s/present does not", cpuRoot,
			online.Difference(present), cpuRoot)
	}
	if fromFile {
		err = t.checkOnline(online)
	}
	if err == nil {
		isolated, err = t.cpuIsolated()
	}
	return online, present, isolated, err
}

// cpuOnline reads /sys/devices/system/cpu/online.
func (t tree) cpuOnline() (cpuset.Set, bool, error) {
	return readIfThere(t, cpuRoot+"/online", cpuset.Parse)
}

// cpuPresent reads /sys/devices/system/cpu/present.
func (t tree) cpuPresent() (cpuset.Set, bool, error) {
	return readIfThere(t, cpuRoot+"/present", cpuset.Parse)
}

// cpuIsolated reads /sys/devices/system/cpu/isolated, which may name CPUs that do
// not exist.
func (t tree) cpuIsolated() (cpuset.Set, error) {
	isolated, _, err := readIfThere(t, cpuRoot+"/isolated", cpuset.Parse)
	return isolated, err
}

// cpuNOnline reads /sys/devices/system/cpu/cpuN/online. It is missing for CPUs
// that cannot go offline, which are online.
func (t tree) cpuNOnline(c cpuset.CPU) (bool, error) {
	online, ok, err := readIfThere(t, cpuDir(c)+"/online", parseFlag)
	return online || !ok, err
}

// cpuDirs returns the CPUs that have a directory /sys/devices/system/cpu/cpuN.
func (t tree) cpuDirs() (cpuset.Set, error) {
	var s cpuset.Set
	numbers, err := t.numbered(cpuRoot, "cpu")
	if err != nil {
		return s, err
	}
	for _, n := range numbers {
		if !cpuset.CPU(n).Valid() {
			return s, fmt.Errorf("list %s: %w: cpu%d is above %d", cpuRoot, cpuset.ErrOutOfRange, n, cpuset.MaxCPUs-1)
		}
		s.Add(cpuset.CPU(n))
	}
	return s, nil
}

// onlineOf returns those of the CPUs that do not say that they are offline.
func (t tree) onlineOf(cpus cpuset.Set) (cpuset.Set, error) {
	var online cpuset.Set
	for c := range cpus.All() {
		is, err := t.cpuNOnline(c)
		if err != nil {
			return online, err
		}
		if is {
			online.Add(c)
		}
	}
	return online, nil
}

func (t tree) checkOnline(online cpuset.Set) error {
	are, err := t.onlineOf(online)
	if err != nil {
		return err
	}
	if not := online.Difference(are); !not.IsEmpty() {
		return contradiction("%s/online lists CPU %d, but %s/online says that it is offline", cpuRoot, not.First(), cpuDir(not.First()))
	}
	return nil
}
