// Package guest defines the messages between a virtual machine and the test that started it. The
// test puts a [Config] into the machine's root file system. The machine's first process
// (guest/init) answers with [Event] values, one JSON object per line, on the second serial port.
// The first serial port belongs to the kernel.
package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"pinfold.dev/pinfold/core/cpuset"
)

// Where things are in the machine.
const (
	ConfigFile = "/guest.json"
	Port       = "/dev/ttyS1"
)

// Env is set for all programs in a machine.
const Env = "PINFOLD_TEST_GUEST"

// Config says what the machine does.
type Config struct {
	// Offline are the CPUs to take offline before the first program.
	Offline cpuset.Set `json:"offline"`
	// Programs run one after the other.
	Programs []Program `json:"programs"`
}

// Program is one program to run as root, with the cpu and cpuset controllers of
// cgroup version 2 passed on by the root group.
type Program struct {
	Name    string        `json:"name"` // of its events
	Path    string        `json:"path"`
	Args    []string      `json:"args"`
	Timeout time.Duration `json:"timeout"`
}

// Event is something that happened in the machine. One of the fields besides
// Program is set.
type Event struct {
	Program string `json:"program,omitempty"`
	// Output is some of what the program printed, on either stream.
	Output string `json:"output,omitempty"`
	// Ended says how the program ended: "" or, when it failed, the reason.
	Ended *string `json:"ended,omitempty"`
	// Failed says what went wrong outside of programs.
	Failed string `json:"failed,omitempty"`
	// Done is the last event.
	Done bool `json:"done,omitempty"`
}

// Ran is what is known of a program that has run.
type Ran struct {
	Output string
	Failed string // how it failed, "" when it did not
}

// ReadEvents reads what a machine says until it is done, and returns what its
// programs did, by name. When the machine falls silent before it is done, or has
// failed, that is an error; what the programs had said by then is returned with it.
func ReadEvents(r io.Reader) (map[string]Ran, error) {
	ran := map[string]Ran{}
	var failed []error
	for d := json.NewDecoder(r); ; {
		var e Event
		err := d.Decode(&e)
		if errors.Is(err, io.EOF) {
			return ran, errors.Join(append(failed, errors.New("the guest ended before it was done"))...)
		}
		if err != nil {
			return ran, errors.Join(append(failed, fmt.Errorf("read what the guest says: %w", err))...)
		}
		p := ran[e.Program]
		switch {
		case e.Done:
			return ran, errors.Join(failed...)
		case e.Failed != "":
			failed = append(failed, fmt.Errorf("in the guest: %s", e.Failed))
			continue
		case e.Ended != nil:
			p.Failed = *e.Ended
		}
		p.Output += e.Output
		ran[e.Program] = p
	}
}
