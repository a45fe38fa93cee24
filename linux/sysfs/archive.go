package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"golang.org/x/tools/txtar"

	"pinfold.dev/pinfold/core/cpuset"
)

// Capture writes the part of a /sys tree that Read looks at as a text archive,
// which [ParseArchive] turns back into a tree: after the header, in txtar form,
// one entry for all files of the same content whose names differ in the number of
// the CPU or node:
//
//	-- devices/system/cpu/cpu{0-1,4-5}/topology/physical_package_id --
//	0
//
// White space around a file's content is left out, and of a node's meminfo
// all but the size of the memory. Files that the kernel refuses to tell (EIO of
// a silent firmware) are left out and named after the header.
//
// What the files say is not looked at: a machine that contradicts itself can
// be captured, too, to find out why.
func Capture(fsys fs.FS, header string) ([]byte, error) {
	c := capture{tree: tree{fsys}}
	if err := c.machine(); err != nil {
		return nil, fmt.Errorf("capture CPU topology: %w", err)
	}
	if len(c.files) == 0 {
		return nil, fmt.Errorf("capture CPU topology: %s: %w; is this the root of a /sys tree?", cpuRoot, fs.ErrNotExist)
	}
	comment := strings.TrimRight(header, "\n") + "\n"
	if len(c.refused) > 0 {
		comment += "\nThe kernel did not tell:\n  " + strings.Join(c.refused, "\n  ") + "\n"
	}
	text := txtar.Format(&txtar.Archive{Comment: []byte(comment + "\n"), Files: c.files})
	if found := len(txtar.Parse(text).Files); found != len(c.files) {
		return nil, errors.New("capture CPU topology: the header or a file has a line of the form \"-- name --\", which divides the files of an archive")
	}
	return text, nil
}

// ParseArchive returns the tree in a text archive as [Capture] or a person
// writes it: txtar, names relative to /sys, a list of numbers in braces for one
// file each. Entries that no /sys has do no harm.
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
		return nil, fmt.Errorf("no archive of a /sys tree: no line has the form \"-- %s/online --\"", cpuRoot)
	}
	tree, err := txtar.FS(expanded)
	if err != nil {
		return nil, fmt.Errorf("archive of a /sys tree: %w", err)
	}
	return tree, nil
}

// expand replaces the list of numbers in braces, if there is one, by each of them.
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
