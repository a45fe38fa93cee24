package cli

import (
	"fmt"
	"os"

	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/linux/sysfs"
)

// hostMachine reads the topology of this machine.
func hostMachine() (*topology.Machine, error) {
	machine, err := sysfs.Read(os.DirFS("/sys"))
	if err != nil {
		return nil, fmt.Errorf("read this machine's topology: %w", err)
	}
	return machine, nil
}
