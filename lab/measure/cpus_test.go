package measure

import (
	"strings"
	"testing"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/experiment"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptest"
)

// TestSize checks each experiment on a machine with one CPU.
func TestSize(t *testing.T) {
	cgrouptest.OpenHost(t)
	machine, err := openMachine()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Names() {
		config, err := Named(name)
		if err != nil {
			t.Fatal(err)
		}
		r := run{config: config, machine: machine, cpus: cpuset.Of(0), scale: experiment.Scale{CPUs: 1, Full: config.CPUs}}
		err = r.checkSize()
		if small := err != nil && strings.Contains(err.Error(), "this machine is too small"); small != (name == "binding") || err != nil && !small {
			t.Errorf("%s: %v", name, err)
		}
	}
}
