package doctor

import (
	"context"
	"fmt"
	"os"

	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/linux/sysfs"
)

// machine reads the topology as the agent will report it.
func (x *examination) machine(context.Context) {
	m, err := sysfs.Read(os.DirFS(x.path("sys")))
	if err != nil {
		x.add("topology", Problem, err.Error(), "send the output of 'pinfold topology capture' with a report of this")
		return
	}
	x.add("topology", OK, fmt.Sprintf("%s, %s, %s, %s, %s", quantity.Count(len(m.Packages()), "package"), quantity.Count(len(m.NUMANodes), "NUMA node"),
		quantity.Count(len(m.LLCs()), "LLC"), quantity.Count(len(m.Cores()), "core"), quantity.Count(len(m.CPUs), "CPU")), "")
	if !m.Offline.IsEmpty() {
		x.add("offline CPUs", Note, m.Offline.String(), "nothing; pods whose CPUs go offline keep the others, and have them again when they are online")
	}
	if !m.Isolated.IsEmpty() {
		x.add("isolated CPUs", Note, fmt.Sprintf("isolcpus keeps the kernel's load balancing off %s", m.Isolated),
			"remove isolcpus from the kernel's command line: shared pods would pile up on one of them")
	}
}
