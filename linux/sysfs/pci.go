package sysfs

import (
	"io/fs"
	"path"
	"strconv"
	"strings"

	"pinfold.dev/pinfold/core/topology"
)

// PCIeRoots returns the PCIe root complexes by NUMA node, such as "pci0000:00", ascending. fsys is
// as in [Examine]. Those whose devices do not say their node are left out.
func PCIeRoots(fsys fs.FS) map[topology.NUMAID][]string {
	roots := map[topology.NUMAID][]string{}
	found, _ := fs.Glob(fsys, "devices/pci*:*") // the pattern is valid
	for _, root := range found {
		files, _ := fs.Glob(fsys, root+"/*:*/numa_node")
		for _, file := range files {
			text, err := fs.ReadFile(fsys, file)
			id, errID := strconv.Atoi(strings.TrimSpace(string(text)))
			if err == nil && errID == nil && id >= 0 {
				roots[topology.NUMAID(id)] = append(roots[topology.NUMAID(id)], path.Base(root))
				break
			}
		}
	}
	return roots
}
