package sysfs

import (
	"os"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// HostRoot is this machine's /sys.
const HostRoot = "/sys"

// Host examines this machine. The CPUs in running, such as those of a control group, and those on
// which this process may run, are online even if /sys does not say so: containers may see a virtual
// /sys (lxcfs).
func Host(running cpuset.Set) (m *topology.Machine, notes []string, err error) {
	own, _ := Affinity() // fails on kernels for more CPUs than a set holds
	return Examine(os.DirFS(HostRoot), running.Union(own))
}
