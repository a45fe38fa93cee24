package measure

import (
	"strings"
	"testing"

	"pinfold.dev/pinfold/core/cpuset"
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
		l := lab{config: config, machine: machine, cpus: cpuset.Of(0)}
		if l.setups, err = config.Setups(1); err != nil {
			t.Fatal(err)
		}
		err = l.checkSize()
		if small := err != nil && strings.Contains(err.Error(), "this machine is too small"); small != (name == "binding") || err != nil && !small {
			t.Errorf("%s: %v", name, err)
		}
	}
}
