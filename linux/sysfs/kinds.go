package sysfs

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// How kinds of core are told apart. The first source that does so decides; a
// source counts only when it says something about every online CPU.
//
//  1. The performance counters of Intel's hybrid machines: one device per kind.
//  2. cpu_capacity: the capacity of a CPU relative to the fastest. Arm; in
//     recent kernels also x86, where it is the same for all CPUs of a hybrid machine
//     with SMT, so that equality proves nothing.
//  3. The performance or frequency that a core sustains: acpi_cppc/nominal_perf,
//     cpufreq/base_frequency. When there is one and it is the same for all cores,
//     they are alike.
//  4. cpufreq/cpuinfo_max_freq, only when there is none of 3.
//
// Values are compared by core, the largest of its threads. Cores of one kind may
// differ a little, since some are favoured: Turbo Boost Max 3.0 lets one or two
// run a few per cent faster than their likes (67 to 64 in the units of an
// i7-1370P), AMD's preferred cores differ in many small steps, and firmware
// rounds. Kinds differ by more, at one step (64 to 39 there). So in
// descending order a new kind begins where the value falls below 7/8 of the one
// before it.

// hybridPMUs are the devices of Linux's arch/x86/events/intel/core.c, fastest first.
var hybridPMUs = []struct {
	kind topology.Kind
	file string
}{
	{topology.KindPerformance, "devices/cpu_core/cpus"},
	{topology.KindEfficiency, "devices/cpu_atom/cpus"},
	{topology.KindLowPower, "devices/cpu_lowpower/cpus"},
}

// setKinds sets the kind of every CPU, and m.Kinds.
func (s scan) setKinds(m *topology.Machine, cores grouping) error {
	m.Kinds = []topology.Kind{""}
	kinds, known, err := s.hybridPMUs(cores)
	if err != nil {
		return err
	}
	if !known {
		if kinds, err = s.kindsByFigures(cores); err != nil {
			return err
		}
	}
	if len(kinds) < 2 {
		return nil
	}
	m.Kinds = nil
	for _, k := range kinds {
		m.Kinds = append(m.Kinds, k.kind)
		for i := range m.CPUs {
			if k.cpus.Contains(m.CPUs[i].ID) {
				m.CPUs[i].Kind = k.kind
			}
		}
	}
	return nil
}

// kindCPUs are the CPUs of one kind of core.
type kindCPUs struct {
	kind topology.Kind
	cpus cpuset.Set
	file string // "" when no single file says so
}

// hybridPMUs reads /sys/devices/{cpu_core,cpu_atom,cpu_lowpower}/cpus. known is false unless every online CPU is in one.
func (s scan) hybridPMUs(cores grouping) (kinds []kindCPUs, known bool, err error) {
	var all cpuset.Set
	for _, pmu := range hybridPMUs {
		cpus, _, err := readIfThere(s.tree, pmu.file, cpuset.Parse)
		if err != nil {
			return nil, false, err
		}
		if cpus = cpus.Intersection(s.online); cpus.IsEmpty() {
			continue
		}
		for _, core := range cores.first {
			threads := cores.claims[core]
			if cpus.Intersects(threads.cpus) && !threads.cpus.IsSubsetOf(cpus) {
				return nil, false, contradiction("%s has some of the CPUs %q, which are one core by %s", pmu.file, threads.cpus, threads.file)
			}
		}
		for _, other := range kinds {
			if both := cpus.Intersection(other.cpus); !both.IsEmpty() {
				return nil, false, contradiction("CPUs %q are of two kinds, by %s and %s", both, other.file, pmu.file)
			}
		}
		all = all.Union(cpus)
		kinds = append(kinds, kindCPUs{pmu.kind, cpus, pmu.file})
	}
	return kinds, all == s.online, nil
}

func (s scan) kindsByFigures(cores grouping) ([]kindCPUs, error) {
	var kinds []kindCPUs
	sustained := false
	for _, source := range []struct {
		figure      func(cpuset.CPU) (uint64, error)
		isSustained bool
	}{
		{figure: s.cpuCapacity},
		{figure: s.nominalPerf, isSustained: true},
		{figure: s.baseFrequency, isSustained: true},
		{figure: s.cpuinfoMaxFreq},
	} {
		if sustained && !source.isSustained {
			break
		}
		figures, known, err := s.coreFigures(cores, source.figure)
		if err != nil {
			return nil, err
		}
		if !known {
			continue
		}
		if kinds = s.kindsOf(cores, figures); len(kinds) > 1 {
			return kinds, nil
		}
		sustained = sustained || source.isSustained
	}
	return kinds, nil
}

// cpuCapacity reads /sys/devices/system/cpu/cpuN/cpu_capacity.
func (s scan) cpuCapacity(c cpuset.CPU) (uint64, error) { return s.figure(cpuDir(c) + "/cpu_capacity") }

// nominalPerf reads /sys/devices/system/cpu/cpuN/acpi_cppc/nominal_perf.
func (s scan) nominalPerf(c cpuset.CPU) (uint64, error) {
	return s.figure(cpuDir(c) + "/acpi_cppc/nominal_perf")
}

// baseFrequency reads /sys/devices/system/cpu/cpuN/cpufreq/base_frequency, in kHz.
func (s scan) baseFrequency(c cpuset.CPU) (uint64, error) {
	return s.figure(cpuDir(c) + "/cpufreq/base_frequency")
}

// cpuinfoMaxFreq reads /sys/devices/system/cpu/cpuN/cpufreq/cpuinfo_max_freq, in kHz.
func (s scan) cpuinfoMaxFreq(c cpuset.CPU) (uint64, error) {
	return s.figure(cpuDir(c) + "/cpufreq/cpuinfo_max_freq")
}

// maxFigure keeps the comparison of figures within 64 bits.
const maxFigure = 1 << 48

// figure reads a figure that may be missing, or 0, which also means unknown. So
// does a kernel that refuses to tell: some of these files ask the firmware.
func (s scan) figure(file string) (uint64, error) {
	value, _, err := readIfThere(s.tree, file, parseFigure)
	var refused syscall.Errno
	if errors.As(err, &refused) {
		return 0, nil
	}
	if value > maxFigure {
		return 0, fmt.Errorf("read %s: %d is no capacity, performance or frequency", file, value)
	}
	return value, err
}

// coreFigures returns one figure by core. known is false unless every CPU has one.
func (s scan) coreFigures(cores grouping, figure func(cpuset.CPU) (uint64, error)) (figures []uint64, known bool, err error) {
	figures = make([]uint64, len(cores.first))
	known = true
	for i, c := range s.cpus {
		value, err := figure(c)
		if err != nil {
			return nil, false, err
		}
		known = known && value > 0
		core := cores.index[i]
		figures[core] = max(figures[core], value)
	}
	return figures, known, nil
}

// kindsOf divides the cores into kinds by their figures, fastest first.
func (s scan) kindsOf(cores grouping, figures []uint64) []kindCPUs {
	descending := slices.Clone(figures)
	slices.Sort(descending)
	slices.Reverse(descending)
	var slowest []uint64 // by kind
	for i, value := range descending {
		if i > 0 && value*8 >= descending[i-1]*7 {
			slowest[len(slowest)-1] = value
		} else {
			slowest = append(slowest, value)
		}
	}
	kinds := make([]kindCPUs, len(slowest))
	for k := range kinds {
		kinds[k].kind = kindName(k, len(kinds))
	}
	for core, first := range cores.first {
		k := slices.IndexFunc(slowest, func(least uint64) bool { return figures[core] >= least })
		kinds[k].cpus = kinds[k].cpus.Union(cores.claims[first].cpus)
	}
	return kinds
}

// kindName names the k-th fastest of n kinds.
func kindName(k, n int) topology.Kind {
	switch k {
	case 0:
		return topology.KindPerformance
	case n - 1:
		return topology.KindEfficiency
	default:
		return topology.Kind(fmt.Sprintf("middle-%d", k))
	}
}
