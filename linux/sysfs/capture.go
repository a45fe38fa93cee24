package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/tools/txtar"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// first are names of files of which the first that exists is read.
type first []string

// What Read looks at, in the order of an archive. TestCaptureTakesWhatIsRead
// compares these with what it does.
var (
	machineFiles = []first{
		{cpuRoot + "/online"}, {cpuRoot + "/present"}, {cpuRoot + "/isolated"},
		{"devices/cpu_core/cpus"}, {"devices/cpu_atom/cpus"}, {"devices/cpu_lowpower/cpus"},
	}
	cpuFiles = []first{
		{"online"},
		{"topology/core_cpus_list", "topology/core_cpus", "topology/thread_siblings_list", "topology/thread_siblings"},
		{"topology/die_id"},
		{"topology/die_cpus_list", "topology/die_cpus"},
		{"topology/physical_package_id"},
		{"topology/package_cpus_list", "topology/package_cpus", "topology/core_siblings_list", "topology/core_siblings"},
	}
	cacheFiles  = []first{{"level"}, {"type"}, {"shared_cpu_list", "shared_cpu_map"}}
	figureFiles = []first{
		{"cpu_capacity"}, {"acpi_cppc/nominal_perf"}, {"cpufreq/base_frequency"}, {"cpufreq/cpuinfo_max_freq"},
	}
	nodesFiles = []first{{nodeRoot + "/online"}, {nodeRoot + "/possible"}}
	nodeFiles  = []first{{"cpulist", "cpumap"}, {"distance"}, {"meminfo"}}
)

// capture collects the files of an archive.
type capture struct {
	tree
	files   []txtar.File
	refused []string // files that cannot be read, with the reason
}

func (c *capture) machine() error {
	cpus, err := c.cpuDirs()
	if err != nil {
		return err
	}
	if err := c.each(machineFiles, c.single); err != nil {
		return err
	}
	byCPU := func(files first) error { return c.numberedFiles(cpuRoot+"/cpu", cpus, files) }
	if err := c.each(cpuFiles, byCPU); err != nil {
		return err
	}
	if err := c.caches(cpus); err != nil {
		return err
	}
	if err := c.each(figureFiles, byCPU); err != nil {
		return err
	}
	return c.nodes()
}

func (c *capture) each(all []first, take func(first) error) error {
	for _, files := range all {
		if err := take(files); err != nil {
			return err
		}
	}
	return nil
}

// single takes one file.
func (c *capture) single(files first) error {
	name, content, err := c.content("", files)
	if name != "" {
		c.add(name, content)
	}
	return err
}

// content returns what the first existing of the files in a directory holds, and
// the file's name; no name when there is none.
func (c *capture) content(dir string, files first) (name, content string, err error) {
	for _, file := range files {
		text, err := fs.ReadFile(c.fsys, dir+file)
		var refused syscall.Errno
		switch {
		case err == nil:
			content := strings.Trim(string(text), " \t\n\x00")
			if file == "meminfo" {
				content = memTotalLine(content)
			}
			return file, content + "\n", nil
		case errors.Is(err, fs.ErrNotExist):
			continue
		case errors.As(err, &refused):
			c.refused = append(c.refused, fmt.Sprintf("%s%s: %v", dir, file, refused))
			return "", "", nil
		default:
			return "", "", fmt.Errorf("read %s%s: %w", dir, file, err)
		}
	}
	return "", "", nil
}

// memTotalLine returns what [parseMemTotal] reads; all of it when it finds nothing.
func memTotalLine(meminfo string) string {
	for line := range strings.Lines(meminfo) {
		if strings.Contains(line, " MemTotal:") {
			return strings.TrimSpace(line)
		}
	}
	return meminfo
}

func (c *capture) add(name, content string) {
	c.files = append(c.files, txtar.File{Name: name, Data: []byte(content)})
}

// numberedFiles takes one file of every directory prefix<N>, with one entry for
// those of the same content, in the order of the lowest number.
func (c *capture) numberedFiles(prefix string, numbers cpuset.Set, files first) error {
	type entry struct{ file, content string }
	var entries []entry
	members := map[entry]cpuset.Set{}
	for n := range numbers.All() {
		file, content, err := c.content(fmt.Sprintf("%s%d/", prefix, n), files)
		if err != nil {
			return err
		}
		if file == "" {
			continue
		}
		e := entry{file, content}
		if _, ok := members[e]; !ok {
			entries = append(entries, e)
		}
		members[e] = members[e].Union(cpuset.Of(n))
	}
	for _, e := range entries {
		list := members[e].String()
		if members[e].Len() > 1 {
			list = "{" + list + "}"
		}
		c.add(prefix+list+"/"+e.file, e.content)
	}
	return nil
}

// caches takes the caches, and of those that can be last-level caches who shares them.
func (c *capture) caches(cpus cpuset.Set) error {
	with := map[int]cpuset.Set{} // by number of the cache
	sharing := map[int]cpuset.Set{}
	for cpu := range cpus.All() {
		numbers, err := c.numbered(cpuDir(cpu)+"/cache", "index")
		if err != nil {
			return err
		}
		for _, n := range numbers {
			with[n] = with[n].Union(cpuset.Of(cpu))
			level, kind, err := c.cacheLevelAndType(fmt.Sprintf("%s/cache/index%d", cpuDir(cpu), n))
			if err != nil || level >= minLLCLevel && kind != instructionCache {
				sharing[n] = sharing[n].Union(cpuset.Of(cpu))
			}
		}
	}
	for _, n := range slices.Sorted(maps.Keys(with)) {
		for i, files := range cacheFiles {
			of := with[n]
			if i == len(cacheFiles)-1 {
				of = sharing[n]
			}
			var below first
			for _, file := range files {
				below = append(below, fmt.Sprintf("cache/index%d/%s", n, file))
			}
			if err := c.numberedFiles(cpuRoot+"/cpu", of, below); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *capture) nodes() error {
	if err := c.each(nodesFiles, c.single); err != nil {
		return err
	}
	numbers, err := c.numbered(nodeRoot, "node")
	if err != nil {
		return err
	}
	var nodes cpuset.Set // there are as many numbers for nodes as for CPUs, see parseNodes
	for _, n := range numbers {
		if !cpuset.CPU(n).Valid() {
			return fmt.Errorf("list %s: %w: node%d is above %d", nodeRoot, cpuset.ErrOutOfRange, n, cpuset.MaxCPUs-1)
		}
		nodes.Add(cpuset.CPU(n))
	}
	if there, err := c.exists(nodeRoot); err != nil || there && nodes.IsEmpty() {
		return errors.Join(err, fmt.Errorf("%s has no NUMA node: the tree is damaged", nodeRoot))
	}
	if err := c.each(nodeFiles, func(files first) error { return c.numberedFiles(nodeRoot+"/node", nodes, files) }); err != nil {
		return err
	}
	return c.initiators(numbers)
}

// initiators takes the names of nodes in accessN/initiators, which are links; an
// archive has an empty file instead.
func (c *capture) initiators(nodes []int) error {
	for _, n := range nodes {
		for _, class := range accessClasses {
			dir := nodeDir(topology.NUMAID(n)) + "/" + class + "/initiators"
			initiators, err := c.numbered(dir, "node")
			if err != nil {
				return err
			}
			for _, i := range initiators {
				c.files = append(c.files, txtar.File{Name: fmt.Sprintf("%s/node%d", dir, i)})
			}
		}
	}
	return nil
}
