package sysfs

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// minLLCLevel is the lowest level of a last-level cache.
const minLLCLevel = 2

// cacheType is the kind of content of a cache.
type cacheType string

const (
	dataCache        cacheType = "Data"
	instructionCache cacheType = "Instruction"
	unifiedCache     cacheType = "Unified"
)

// maxCacheLevel is more than any machine has, and bounds the notes about levels.
const maxCacheLevel = 8

func parseCacheLevel(text string) (uint64, error) {
	level, err := parseFigure(text)
	if err == nil && level > maxCacheLevel {
		err = fmt.Errorf("%d is not a level of cache", level)
	}
	return level, err
}

// maxCacheBytes is more than any cache has.
const maxCacheBytes = 1 << 40

// parseCacheBytes parses a size as size_show of drivers/base/cacheinfo.c prints it: 32768K.
func parseCacheBytes(text string) (uint64, error) {
	digits, ok := strings.CutSuffix(text, "K")
	n, err := parseFigure(digits)
	if !ok || err != nil || n == 0 || n > maxCacheBytes>>10 {
		return 0, fmt.Errorf("%q is not a size of cache", text)
	}
	return n << 10, nil
}

func parseCacheType(text string) (cacheType, error) {
	switch t := cacheType(text); t {
	case dataCache, instructionCache, unifiedCache:
		return t, nil
	}
	return "", fmt.Errorf("%q is not a type of cache", text)
}

// place is where a CPU is, without regard to caches.
type place struct {
	pkg, die int
	numa     topology.NUMAID
}

// llcs groups the CPUs by last-level cache: the highest-level unified or data cache of level 2 or
// more in /sys/devices/system/cpu/cpuN/cache. A cache that has only a part of one of a lower level
// is ignored. CPUs without a cache, and those with one about which the kernel does not say who
// shares it, share one per package, die and NUMA node: no information means no preference. Arm core
// clusters (cluster_cpus_list) are not used; if they share a cache, these files show it. sizes are
// those of the caches that their CPUs agree on.
func (s scan) llcs(cores grouping, levels map[uint64]*cacheLevel, placeOf func(i int) place) (llcs grouping, sizes map[topology.LLCID]uint64) {
	largest := make([]cpuset.Set, len(s.cpus)) // by CPU: the cache of the highest level so far
	bytes := make([]uint64, len(s.cpus))       // and its size
	for _, number := range slices.Sorted(maps.Keys(levels)) {
		caches, alone := s.cachesOf(number, levels[number])
		for c := range alone.All() {
			largest[s.at[c]], bytes[s.at[c]] = cpuset.Set{}, 0
		}
		for _, cache := range caches {
			if cut := s.cuts(largest, cache); !cut.IsEmpty() {
				s.mend("the smaller one is ignored", "CPUs %s share a cache of level %d, but %s one of a lower level", cache, number, cut)
				continue
			}
			for c := range cache.All() {
				largest[s.at[c]], bytes[s.at[c]] = cache, levels[number].bytes[s.at[c]]
			}
		}
	}
	labels := make([]int, len(s.cpus))
	for i := range labels {
		labels[i] = unknown
		if !largest[i].IsEmpty() {
			labels[i] = int(largest[i].First())
		}
	}
	labels = s.wholeCores("last-level cache", cores, labels)
	type key struct {
		cache int
		place place
	}
	llcs = labelled(s, func(i int) key {
		if labels[i] != unknown {
			return key{cache: labels[i]}
		}
		return key{unknown, placeOf(i)}
	})
	return llcs, s.sizesOf(llcs, bytes)
}

// sizesOf returns the sizes of caches, without those about which no CPU knows, or CPUs disagree.
func (s scan) sizesOf(llcs grouping, bytes []uint64) map[topology.LLCID]uint64 {
	var sizes map[topology.LLCID]uint64 // nil if none is known
	for id, cpus := range llcs.sets {
		var smallest, largest uint64
		for c := range cpus.All() {
			if size := bytes[s.at[c]]; size != 0 {
				smallest, largest = min(cmp.Or(smallest, size), size), max(largest, size)
			}
		}
		switch {
		case smallest != largest:
			s.mend("its size is unknown", "CPUs %s share a cache, but disagree on its size", cpus)
		case largest != 0:
			if sizes == nil {
				sizes = map[topology.LLCID]uint64{}
			}
			sizes[topology.LLCID(id)] = largest
		}
	}
	return sizes
}

// cuts returns a cache of which another one has only a part, or the empty set.
func (s scan) cuts(caches []cpuset.Set, other cpuset.Set) cpuset.Set {
	for c := range other.All() {
		if cache := caches[s.at[c]]; !cache.IsSubsetOf(other) {
			return cache
		}
	}
	return cpuset.Set{}
}

// cacheLevel is what the CPUs say about their unified or data caches of one level.
type cacheLevel struct {
	cpus  cpuset.Set
	lists []cpuset.Set // by CPU: the CPUs that share its cache, empty if unknown
	bytes []uint64     // by CPU: the size of its cache, 0 if unknown
}

// cacheLevels reads the caches of level 2 or more.
func (s scan) cacheLevels() map[uint64]*cacheLevel {
	levels := map[uint64]*cacheLevel{}
	for i, c := range s.cpus {
		dir := cpuDir(c) + "/cache"
		for _, n := range s.numberedOr("the CPU shares the caches of those that list it", dir, "index") {
			index := fmt.Sprintf("%s/index%d", dir, n)
			number, kind := s.cacheLevelAndType(index)
			if kind == instructionCache || number < minLLCLevel {
				continue
			}
			level, ok := levels[number]
			if !ok {
				level = &cacheLevel{lists: make([]cpuset.Set, len(s.cpus)), bytes: make([]uint64, len(s.cpus))}
				levels[number] = level
			}
			if level.cpus.Add(c); level.lists[i].IsEmpty() {
				level.lists[i], _ = s.list(c, index+"/shared_cpu_list", index+"/shared_cpu_map") // else the kernel does not know them
				level.bytes[i], _ = readOr(s.tree, "the size of the cache is unknown", index+"/size", parseCacheBytes)
			}
		}
	}
	return levels
}

// cachesOf returns the caches of a level, as sets of CPUs, and the CPUs of which it is not known
// with whom they share theirs.
func (s scan) cachesOf(number uint64, level *cacheLevel) (caches []cpuset.Set, alone cpuset.Set) {
	labels := s.divide(fmt.Sprintf("cache of level %d", number), level.lists, nil)
	for _, cache := range labelled(s, func(i int) int { return labels[i] }).sets {
		if labels[s.at[cache.First()]] == unknown {
			alone = cache.Intersection(level.cpus)
			continue
		}
		if lacking := cache.Difference(level.cpus); !lacking.IsEmpty() {
			s.mend("they share it", "CPUs %s have no cache of level %d, but others list them as sharing one", lacking, number)
		}
		caches = append(caches, cache)
	}
	return caches, alone
}

// cacheLevelAndType reads level and type of the directory
// /sys/devices/system/cpu/cpuN/cache/indexN. The kernel omits the file of an unknown value
// (drivers/base/cacheinfo.c). An unknown level is 0.
func (t tree) cacheLevelAndType(index string) (uint64, cacheType) {
	const ignored = "such caches are ignored"
	level, _ := readOr(t, ignored, index+"/level", parseCacheLevel)
	kind, ok := readOr(t, ignored, index+"/type", parseCacheType)
	if !ok {
		level = 0
	}
	return level, kind
}
