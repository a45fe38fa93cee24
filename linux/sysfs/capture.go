package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/tools/txtar"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// Capture writes the files of a /sys tree that Read reads as a text archive, which [ParseArchive]
// converts back to a tree. The archive contains the header and then, in txtar form, one entry for
// all files of the same content whose names differ in the number of the CPU or node:
//
//	-- devices/system/cpu/cpu{0-1,4-5}/topology/physical_package_id --
//	0
//
// White space around a file's content is omitted, and of a node's meminfo all but the size of the
// memory. Files that the kernel does not let read (EIO if the firmware does not answer) are omitted
// and named after the header.
//
// Capture does not check the content of files, so that a machine that contradicts itself can be
// captured for analysis.
func Capture(fsys fs.FS, header string) ([]byte, error) {
	c := capture{tree: newTree(fsys)}
	if err := c.machine(); err != nil {
		return nil, fmt.Errorf("capture CPU topology: %w", err)
	}
	if len(c.files) == 0 {
		return nil, fmt.Errorf("capture CPU topology: %s: %w; is this the root of a /sys tree?", cpuRoot, fs.ErrNotExist)
	}
	comment := strings.TrimRight(header, "\n") + "\n"
	if len(c.refused) > 0 {
		comment += "\nThe kernel rejected reading:\n  " + strings.Join(c.refused, "\n  ") + "\n"
	}
	text := txtar.Format(&txtar.Archive{Comment: []byte(comment + "\n"), Files: c.files})
	if found := len(txtar.Parse(text).Files); found != len(c.files) {
		return nil, errors.New("capture CPU topology: the header or a file has a line of the form \"-- name --\", which divides the files of an archive")
	}
	return text, nil
}

// ParseArchive returns the tree in a text archive, written by [Capture] or by hand. The archive is
// in txtar form. Names are relative to /sys, and a list of numbers in braces stands for one file
// each. Entries that do not exist in /sys are ignored.
func ParseArchive(text []byte) (fs.FS, error) {
	archive := txtar.Parse(text)
	expanded := &txtar.Archive{}
	there := map[string]bool{}
	for _, file := range archive.Files {
		names, err := expand(file.Name)
		if err != nil {
			return nil, fmt.Errorf("archive of a /sys tree: %w", err)
		}
		for _, name := range names {
			if there[name] {
				return nil, fmt.Errorf("archive of a /sys tree: %s is there twice, the second time in %q", name, file.Name)
			}
			there[name] = true
			expanded.Files = append(expanded.Files, txtar.File{Name: name, Data: file.Data})
		}
	}
	if len(there) == 0 {
		return nil, fmt.Errorf("not an archive of a /sys tree: no line has the form \"-- %s/online --\"", cpuRoot)
	}
	tree, err := txtar.FS(expanded)
	if err != nil {
		return nil, fmt.Errorf("archive of a /sys tree: %w", err)
	}
	return tree, nil
}

// expand returns one name for each number of the list in braces, or the name itself without such a
// list.
func expand(name string) ([]string, error) {
	before, rest, ok := strings.Cut(name, "{")
	if !ok {
		return []string{name}, nil
	}
	list, after, ok := strings.Cut(rest, "}")
	if !ok {
		return nil, fmt.Errorf("%q has no closing brace", name)
	}
	if strings.Contains(after, "{") {
		return nil, fmt.Errorf("%q has two lists in braces, want one", name)
	}
	numbers, err := cpuset.Parse(list)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", name, err)
	}
	var names []string
	for n := range numbers.All() {
		names = append(names, before+strconv.Itoa(int(n))+after)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%q stands for no file: the list in braces is empty", name)
	}
	return names, nil
}

// alternatives are names of files of which the first that exists is read.
type alternatives []string

// The files that Read reads of each CPU, cache and node, in the order of an archive, in addition to
// figureFiles and modelFile. TestCaptureTakesWhatIsRead checks that they are complete.
var (
	cpuFiles = []alternatives{
		{"online"},
		{"topology/core_cpus_list", "topology/core_cpus", "topology/thread_siblings_list", "topology/thread_siblings"},
		{"topology/core_id"},
		{"topology/cluster_id"},
		{"topology/die_id"},
		{"topology/die_cpus_list", "topology/die_cpus"},
		{"topology/physical_package_id"},
		{"topology/package_cpus_list", "topology/package_cpus", "topology/core_siblings_list", "topology/core_siblings"},
	}
	cacheFiles = []alternatives{{"level"}, {"type"}}
	llcFiles   = []alternatives{{"shared_cpu_list", "shared_cpu_map"}, {"size"}}
	nodeFiles  = []alternatives{{"cpulist", "cpumap"}, {"distance"}, {"meminfo"}}
)

// capture collects the files of an archive.
type capture struct {
	tree
	files   []txtar.File
	refused []string // files that cannot be read, with the reason
	err     error    // the first one; nothing is captured after it
}

func (c *capture) machine() error {
	cpus, nodes := setOf(c.entries(cpuRoot, "cpu")), setOf(c.entries(nodeRoot, "node"))
	c.single(cpuRoot+"/online", cpuRoot+"/present", cpuRoot+"/isolated", cpuRoot+"/nohz_full")
	for _, pmu := range hybridPMUs {
		c.single(pmu.file)
	}
	c.numberedFiles(cpuRoot+"/cpu", cpus, cpuFiles...)
	c.caches(cpus)
	for _, file := range figureFiles {
		c.numberedFiles(cpuRoot+"/cpu", cpus, alternatives{file.name})
	}
	c.numberedFiles(cpuRoot+"/cpu", cpus, alternatives{modelFile})
	c.single(nodeRoot+"/online", nodeRoot+"/possible")
	c.numberedFiles(nodeRoot+"/node", nodes, nodeFiles...)
	c.initiators(nodes)
	return c.err
}

// single captures files of which there is one each.
func (c *capture) single(files ...string) {
	for _, file := range files {
		if name, content := c.content("", alternatives{file}); name != "" {
			c.add(name, content)
		}
	}
}

// content returns the name and content of the first of the files that exists in a directory. The
// name is "" if there is none.
func (c *capture) content(dir string, files alternatives) (name, content string) {
	for _, file := range files {
		text, err := fs.ReadFile(c.fsys, dir+file)
		var refused syscall.Errno
		switch {
		case c.err != nil:
			return "", ""
		case err == nil:
			content := strings.Trim(string(text), " \t\n\x00")
			if file == "meminfo" {
				content = memTotalLine(content)
			}
			return file, content + "\n"
		case errors.Is(err, fs.ErrNotExist):
			continue
		case errors.As(err, &refused):
			c.refused = append(c.refused, fmt.Sprintf("%s%s: %v", dir, file, refused))
		default:
			c.err = fmt.Errorf("read %s%s: %w", dir, file, err)
		}
		break
	}
	return "", ""
}

// memTotalLine returns the line that [parseMemTotal] parses, or the whole text without such a line.
func memTotalLine(meminfo string) string {
	for line := range strings.Lines(meminfo) {
		if strings.Contains(line, " MemTotal:") {
			return strings.TrimSpace(line)
		}
	}
	return meminfo
}

// entries is numbered. A directory that cannot be listed has no entries.
func (c *capture) entries(dir, prefix string) []int {
	numbers, err := c.numbered(dir, prefix)
	if err != nil {
		c.refused = append(c.refused, err.Error())
	}
	return numbers
}

func (c *capture) add(name, content string) {
	c.files = append(c.files, txtar.File{Name: name, Data: []byte(content)})
}

// numberedFiles captures files of every directory prefix<N>, with one entry for all of the same
// name and content, in the order of the lowest number.
func (c *capture) numberedFiles(prefix string, numbers cpuset.Set, all ...alternatives) {
	type entry struct{ file, content string }
	for _, files := range all {
		var entries []entry
		members := map[entry]cpuset.Set{}
		for n := range numbers.All() {
			file, content := c.content(fmt.Sprintf("%s%d/", prefix, n), files)
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
	}
}

// caches captures the caches, and who shares one, and its size, only if it may be a last-level
// cache.
func (c *capture) caches(cpus cpuset.Set) {
	with := map[int]cpuset.Set{} // by number of the cache
	sharing := map[int]cpuset.Set{}
	for cpu := range cpus.All() {
		for _, n := range c.entries(cpuDir(cpu)+"/cache", "index") {
			with[n] = with[n].Union(cpuset.Of(cpu))
			level, kind := c.cacheLevelAndType(fmt.Sprintf("%s/cache/index%d", cpuDir(cpu), n))
			if level >= minLLCLevel && kind != instructionCache {
				sharing[n] = sharing[n].Union(cpuset.Of(cpu))
			}
		}
	}
	for _, n := range slices.Sorted(maps.Keys(with)) {
		for i, files := range slices.Concat(cacheFiles, llcFiles) {
			of := with[n]
			if i >= len(cacheFiles) {
				of = sharing[n]
			}
			var below alternatives
			for _, file := range files {
				below = append(below, fmt.Sprintf("cache/index%d/%s", n, file))
			}
			c.numberedFiles(cpuRoot+"/cpu", of, below)
		}
	}
}

// initiators captures the names of nodes in accessN/initiators. They are links, for which an
// archive has empty files.
func (c *capture) initiators(nodes cpuset.Set) {
	for n := range nodes.All() {
		for _, class := range accessClasses {
			dir := nodeDir(topology.NUMAID(n)) + "/" + class + "/initiators"
			for _, i := range c.entries(dir, "node") {
				c.files = append(c.files, txtar.File{Name: fmt.Sprintf("%s/node%d", dir, i)})
			}
		}
	}
}
