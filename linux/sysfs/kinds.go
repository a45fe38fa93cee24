package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// Kinds of core differ in their design, or only in their clock. Designs have different caches,
// sizes and instructions per cycle; a clock is a setting, as with Intel's Speed Select (base
// frequencies of 2.8 and 2.1 GHz in one package). The first source that finds different kinds
// decides. A source is ignored if it lacks a value for an online CPU.
//
//  1. The performance counters of Intel's hybrid machines: one device per design.
//  2. cpu_capacity: the capacity of a CPU relative to the fastest. Arm has it, and recent kernels
//     on x86, where it is the same for all CPUs of a hybrid machine with SMT. So equality proves
//     nothing. Different capacities are different designs, unless all cores have the same model
//     (regs/identification/midr_el1).
//  3. The sustained performance or frequency of a core: acpi_cppc/nominal_perf,
//     cpufreq/base_frequency. If one of these is the same for all cores, they are of one kind.
//  4. cpufreq/cpuinfo_max_freq, only if none of 3 exists.
//
// The kinds of 3 and 4 are designs if they also differ in what a clock does not change: the threads
// of a core, the CPUs that share its cache of level 2, or its model.
//
// Values are compared per core, using the largest of its threads. Cores of one kind may differ a
// little, because some are favoured: Turbo Boost Max 3.0 lets one or two cores run a few per cent
// faster (67 to 64 in the units of an i7-1370P), AMD's preferred cores differ in many small steps,
// and firmware rounds. Kinds differ by more, in one step (64 to 39 there). So, in descending order,
// a new kind begins where a value is below 7/8 of the previous one.

// hybridPMUs are the devices of Linux's arch/x86/events/intel/core.c, fastest first.
var hybridPMUs = []struct {
	kind topology.Kind
	file string
}{
	{topology.KindPerformance, "devices/cpu_core/cpus"},
	{topology.KindEfficiency, "devices/cpu_atom/cpus"},
	{topology.KindLowPower, "devices/cpu_lowpower/cpus"},
}

// setKinds sets the kind of every CPU, and m.Kinds. l2 has the caches of level 2, nil if there are
// none.
func (s scan) setKinds(m *topology.Machine, cores grouping, l2 *cacheLevel) {
	m.Kinds = []topology.Kind{""}
	kinds, known := s.hybridPMUs(cores)
	if !known {
		kinds = s.kindsByFigures(cores, l2)
	}
	if len(kinds) < 2 {
		return
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
}

// kindCPUs are the CPUs of one kind of core.
type kindCPUs struct {
	kind topology.Kind
	cpus cpuset.Set
}

// hybridPMUs reads /sys/devices/{cpu_core,cpu_atom,cpu_lowpower}/cpus. known is true if every
// online CPU is in one of them, and all threads of a core in the same one.
func (s scan) hybridPMUs(cores grouping) (kinds []kindCPUs, known bool) {
	const ignored = "the performance counters are ignored for the kinds of core"
	var all cpuset.Set
	for _, pmu := range hybridPMUs {
		cpus, _ := readOr(s.tree, ignored, pmu.file, cpuset.Parse)
		if cpus = cpus.Intersection(s.online); cpus.IsEmpty() {
			continue
		}
		for _, threads := range cores.sets {
			if cpus.Intersects(threads) && !threads.IsSubsetOf(cpus) {
				s.mend(ignored, "%s has some of the threads of one core, CPUs %s", pmu.file, threads)
				return nil, false
			}
		}
		if both := cpus.Intersection(all); !both.IsEmpty() {
			s.mend(ignored, "%s has CPUs %s, which are of another kind, too", pmu.file, both)
			return nil, false
		}
		all = all.Union(cpus)
		kinds = append(kinds, kindCPUs{pmu.kind, cpus})
	}
	return kinds, all == s.online
}

// figureFiles are the files in /sys/devices/system/cpu/cpuN with a figure of the core's
// performance, in the order in which they are compared. Frequencies are in kHz.
var figureFiles = []struct {
	name      string
	sustained bool // equality means that the cores are of one kind
	clock     bool // differs between cores of one design, too
}{
	{"cpu_capacity", false, false}, {"acpi_cppc/nominal_perf", true, true}, {"cpufreq/base_frequency", true, true},
	{"cpufreq/cpuinfo_max_freq", false, true},
}

func (s scan) kindsByFigures(cores grouping, l2 *cacheLevel) []kindCPUs {
	var kinds []kindCPUs
	sustained := false
	for _, file := range figureFiles {
		if sustained && !file.sustained {
			break
		}
		figures, known := s.coreFigures(cores, file.name)
		if !known {
			continue
		}
		if kinds = s.kindsOf(cores, figures); len(kinds) > 1 {
			s.name(kinds, s.designs(cores, kinds, l2, file.clock))
			return kinds
		}
		sustained = sustained || file.sustained
	}
	return kinds
}

// design is what the clock of a core does not change.
type design struct {
	threads, sharers int    // of the core, and of its cache of level 2
	model            string // "" if unknown
}

// modelFile has the model of a CPU (Main ID Register) in hexadecimal digits, on Arm only.
const modelFile = "regs/identification/midr_el1"

// designs returns the designs of the cores of each kind. Without structure, these are their models
// only.
func (s scan) designs(cores grouping, kinds []kindCPUs, l2 *cacheLevel, structure bool) [][]design {
	all := make([][]design, len(kinds))
	for _, threads := range cores.sets {
		var d design
		first := threads.First()
		d.model, _ = read(s.tree, cpuDir(first)+"/"+modelFile, func(text string) (string, error) { return text, nil })
		if structure {
			d.threads = threads.Len()
		}
		if structure && l2 != nil {
			d.sharers = l2.lists[s.at[first]].Len()
		}
		k := slices.IndexFunc(kinds, func(k kindCPUs) bool { return k.cpus.Contains(first) })
		all[k] = append(all[k], d)
	}
	return all
}

// name gives kinds their names. Neighbours of which some cores have the same known design differ in
// their clock only.
func (s scan) name(kinds []kindCPUs, designs [][]design) {
	group, groups := make([]int, len(kinds)), 1
	for k := 1; k < len(kinds); k++ {
		if !slices.ContainsFunc(designs[k], func(d design) bool { return d != design{} && slices.Contains(designs[k-1], d) }) {
			groups++
		}
		group[k] = groups - 1
	}
	for k := range kinds {
		var of topology.Kind
		if groups > 1 {
			of = kindName(group[k], groups)
		}
		first := slices.Index(group, group[k])
		if kinds[k].kind = of; groups == 1 || slices.Contains(group[first+1:], group[k]) {
			kinds[k].kind = topology.ClockKind(of, k-first+1)
		}
	}
}

// maxFigure prevents overflow when figures are compared.
const maxFigure = 1 << 48

// figure reads a figure. It returns 0, which means unknown, if the file is missing or damaged, or
// the kernel rejects the read, because some of these files query the firmware.
func (s scan) figure(file string) uint64 {
	value, err := read(s.tree, file, parseFigure)
	if err == nil && value > maxFigure {
		err = fmt.Errorf("read %s: %d is not a capacity, performance or frequency", file, value)
	}
	if err == nil {
		return value
	}
	var refused syscall.Errno
	if !errors.Is(err, fs.ErrNotExist) && !errors.As(err, &refused) {
		s.notes.add("such figures are ignored for the kinds of core", err)
	}
	return 0
}

// coreFigures returns the figure of each core, the largest of its threads. known is true if every
// CPU has one.
func (s scan) coreFigures(cores grouping, file string) (figures []uint64, known bool) {
	figures = make([]uint64, len(cores.sets))
	known = true
	for i, c := range s.cpus {
		value := s.figure(cpuDir(c) + "/" + file)
		known = known && value > 0
		core := cores.index[i]
		figures[core] = max(figures[core], value)
	}
	return figures, known
}

// kindsOf divides the cores into kinds by their figures, the fastest first. It does not name them.
func (s scan) kindsOf(cores grouping, figures []uint64) []kindCPUs {
	descending := slices.Clone(figures)
	slices.Sort(descending)
	slices.Reverse(descending)
	var slowest []uint64 // the lowest figure of each kind
	for i, value := range descending {
		if i > 0 && value*8 >= descending[i-1]*7 {
			slowest[len(slowest)-1] = value
		} else {
			slowest = append(slowest, value)
		}
	}
	kinds := make([]kindCPUs, len(slowest))
	for core, threads := range cores.sets {
		k := slices.IndexFunc(slowest, func(least uint64) bool { return figures[core] >= least })
		kinds[k].cpus = kinds[k].cpus.Union(threads)
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
