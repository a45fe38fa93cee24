package sysfs

import (
	"errors"
	"fmt"
	"io/fs"

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

func parseCacheType(text string) (cacheType, error) {
	switch t := cacheType(text); t {
	case dataCache, instructionCache, unifiedCache:
		return t, nil
	}
	return "", fmt.Errorf("%q is not a type of cache", text)
}

// llcs groups the CPUs by last-level cache. CPUs without one share one per package, die and NUMA
// node.
func (s scan) llcs(p parts) (grouping, error) {
	claims := make([]claim, len(s.cpus))
	var unlisted cpuset.Set
	for i, c := range s.cpus {
		var err error
		if claims[i], err = s.llcOf(c); err != nil {
			return grouping{}, err
		}
		if claims[i].file == "" {
			unlisted.Add(c)
		}
	}
	type place struct {
		pkg, die int
		numa     topology.NUMAID
	}
	byPlace := claimsByKey(s.cpus, func(i int) place { return place{p.packages.index[i], p.dies.index[i], p.numa.of[i]} },
		func(i int) string { return cpuDir(s.cpus[i]) + "/cache (which lists no last-level cache)" })
	for i := range claims {
		if claims[i].file == "" {
			claims[i] = claim{byPlace[i].cpus.Intersection(unlisted), byPlace[i].file}
		}
	}
	return s.group("last-level cache", claims)
}

// llcOf returns the CPUs that share the highest-level unified or data cache of level 2 or more in
// /sys/devices/system/cpu/cpuN/cache. The claim has no file if there is no such cache, or if the
// kernel does not know who shares it.
func (s scan) llcOf(c cpuset.CPU) (claim, error) {
	dir := cpuDir(c) + "/cache"
	indexes, err := s.numbered(dir, "index")
	if err != nil {
		return claim{}, err
	}
	var llc claim
	highest := uint64(0)
	for _, n := range indexes {
		index := fmt.Sprintf("%s/index%d", dir, n)
		level, kind, err := s.cacheLevelAndType(index)
		if err != nil {
			return claim{}, err
		}
		if kind == instructionCache || level < minLLCLevel || level <= highest {
			continue
		}
		highest = level
		cpus, file, err := s.readFirst(index+"/shared_cpu_list", index+"/shared_cpu_map")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return claim{}, err
		}
		llc = claim{cpus.Intersection(s.online), file}
	}
	return llc, nil
}

// cacheLevelAndType reads level and type of the directory
// /sys/devices/system/cpu/cpuN/cache/indexN. The kernel omits the file of an unknown value
// (drivers/base/cacheinfo.c). An unknown level is 0.
func (t tree) cacheLevelAndType(index string) (uint64, cacheType, error) {
	level, _, err := readIfThere(t, index+"/level", parseFigure)
	if err != nil {
		return 0, "", err
	}
	kind, ok, err := readIfThere(t, index+"/type", parseCacheType)
	if !ok {
		level = 0
	}
	return level, kind, err
}
