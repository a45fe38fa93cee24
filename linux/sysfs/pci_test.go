package sysfs

import (
	"reflect"
	"testing"
	"testing/fstest"

	"pinfold.dev/pinfold/core/topology"
)

// TestPCIeRoots: a root belongs to the NUMA node of its first device that names one.
func TestPCIeRoots(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	got := PCIeRoots(fstest.MapFS{
		"devices/pci0000:00/0000:00:00.0/numa_node": file("-1\n"),
		"devices/pci0000:00/0000:00:1f.0/numa_node": file("0\n"),
		"devices/pci0000:80/0000:80:00.0/numa_node": file("1\n"),
		"devices/pci0000:c0/0000:c0:00.0/numa_node": file("1\n"),
		"devices/pci0000:e0/0000:e0:00.0/numa_node": file("?\n"),
		"devices/pci0000:f0/power/numa_node":        file("0\n"),
		"devices/platform/numa_node":                file("0\n"),
	})
	want := map[topology.NUMAID][]string{0: {"pci0000:00"}, 1: {"pci0000:80", "pci0000:c0"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
