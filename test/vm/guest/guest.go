// Package guest defines the messages between a virtual machine and the test that started it. The
// test puts a [Config] into the machine's initramfs. The program guest/init answers with [Event]
// values, one JSON object per line, on the second serial port. The first serial port belongs to the
// kernel.
package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"pinfold.dev/pinfold/core/cpuset"
)

// Paths in the machine: the Config, and the serial port for events.
const (
	ConfigFile = "/guest.json"
	Port       = "/dev/ttyS1"
)

// Env is an environment variable that is set for all programs in a machine.
const Env = "PINFOLD_TEST_GUEST"

// ShowEnv is an environment variable with a pattern of the files that the test TestShow of
// test/vm/inside prints, each in a line: Shown, the path, and the content in base 64.
const (
	ShowEnv = "PINFOLD_TEST_SHOW"
	Shown   = "shown:"
)

// Config is the task of a machine.
type Config struct {
	// Offline are the CPUs to take offline before the first program.
	Offline cpuset.Set `json:"offline"`
	// Programs are run one after the other.
	Programs []Program `json:"programs"`
	// System is what the machine has besides the initramfs, nil for nothing.
	System *System `json:"system,omitempty"`
}

// System is the operating system of a machine that sees the host's files: of User Mode Linux.
type System struct {
	// Root is the host's directory with the root file system. The machine writes to an overlay in
	// memory.
	Root string `json:"root"`
	// Shares are directories of the host by their paths in the machine, where they are read-only.
	Shares map[string]string `json:"shares"`
	// Systemd makes systemd the first process. It runs the programs as a service.
	Systemd bool `json:"systemd"`
}

// DataDir is an empty file system in memory of a machine that has a System.
const DataDir = "/data"

// Program is a program to run as root. The root cgroup (version 2) enables the cpu and cpuset
// controllers for its children, and all others that the kernel has if there is a System.
type Program struct {
	Name    string        `json:"name"` // used in its events
	Path    string        `json:"path"`
	Args    []string      `json:"args"`
	Dir     string        `json:"dir"`
	Env     []string      `json:"env"` // in addition to PATH, HOME, TMPDIR and Env
	Timeout time.Duration `json:"timeout"`
}

// Beat is the interval of the events Alive of a machine that has a System. Every machine writes one
// when its first process starts.
const Beat = 10 * time.Second

// Event is something that happened in the machine. Besides Program, one field is set.
type Event struct {
	Program string `json:"program,omitempty"`
	// Output is a part of the program's output, from either stream.
	Output string `json:"output,omitempty"`
	// Ended is set when the program has ended: to "", or to the reason if it failed.
	Ended *string `json:"ended,omitempty"`
	// Alive says only that the machine makes progress.
	Alive bool `json:"alive,omitempty"`
	// Failed is an error outside of programs.
	Failed string `json:"failed,omitempty"`
	// Done is the last event.
	Done bool `json:"done,omitempty"`
}

// Ran is the result of a program.
type Ran struct {
	Output string
	Failed string // why it failed, "" if it did not
}

// ReadEvents reads the events of a machine until it is done and returns the results of its programs
// by name. If the machine fails, or ends before it is done, it returns an error with the results so
// far.
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
			return ran, errors.Join(append(failed, fmt.Errorf("read the guest's events: %w", err))...)
		}
		p := ran[e.Program]
		switch {
		case e.Alive:
			continue
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
