package measure

import (
	"errors"
	"testing"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/lab/host"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/test/must"
)

// TestSize checks each experiment on a machine with one CPU.
func TestSize(t *testing.T) {
	for _, name := range Names() {
		config, err := Named(name)
		if err != nil {
			t.Fatal(err)
		}
		l := lab{config: config, machine: machine{host.Machine{Groups: new(cgroup.FS)}}, cpus: cpuset.Of(0)}
		l.setups = must.Get(config.Setups(1))(t)
		err = l.checkSize()
		if small := errors.Is(err, ErrTooSmall); small != (name == "binding") || err != nil && !small {
			t.Errorf("%s: %v", name, err)
		}
	}
}
