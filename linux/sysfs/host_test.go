package sysfs_test

import (
	"os"
	"testing"

	"pinfold.dev/pinfold/linux/sysfs"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
)

func TestHost(t *testing.T) {
	need.This(t, "this machine's topology")
	const online = "/sys/devices/system/cpu/online"
	if _, err := os.Stat(online); err != nil {
		t.Skipf("this host has no sysfs mounted that shows its CPUs: %v", err)
	}
	m := must.Get(sysfs.Read(os.DirFS("/sys")))(t)
	if err := m.Validate(); err != nil {
		t.Error(err)
	}
	t.Logf("%d CPUs, %d cores, %d LLCs, %d NUMA nodes", len(m.CPUs), len(m.Cores()), len(m.LLCs()), len(m.NUMANodes))
}
