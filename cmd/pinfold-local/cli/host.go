package cli

import (
	"errors"

	"pinfold.dev/pinfold/core/topology"
)

// hostMachine reads the topology of this machine.
func hostMachine() (*topology.Machine, error) {
	return nil, errors.New("not yet")
}
