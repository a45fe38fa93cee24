package confine

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"syscall"
	"time"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
)

// Spec is a command and how to run it.
type Spec struct {
	// Name is the name of the group, without prefix; see CheckName. If it is empty, the group gets
	// a unique name.
	Name string
	Path string   // file to execute; see Look
	Args []string // the command's name and its arguments
	// Settings are quota, period, burst and idle. Those that are nil have the kernel's default.
	// CPUs is ignored.
	Settings cgroup.Wanted
	// CPUs chooses the CPUs for the command. If it is nil, the command may run on all CPUs of this
	// process.
	CPUs func(Room) (cpuset.Set, error)
	// Wait waits for processes that the command leaves behind. Otherwise they are killed.
	Wait           bool
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Notify is called with messages for the user. It must not be nil.
	Notify func(message string)
}

// Room is the set of CPUs to choose from.
type Room struct {
	Parent   cpuset.Set // CPUs of the group that the command's group is created in
	Affinity cpuset.Set // CPUs that this process may run on: taskset(1)
	Taken    cpuset.Set // CPUs chosen for other current runs in the same place
}

// Result is the outcome of a command.
type Result struct {
	ExitStatus int            // 0 to 255; 128 + Signal if a signal ended the command
	Signal     syscall.Signal // 0 if no signal ended the command
	Settings   cgroup.Settings
	Wall       time.Duration // from the command's start to the end of all its processes
	// Stat are the kernel's statistics of all processes of the group, including those that were
	// killed.
	Stat         cgroupstat.Stat
	User, System time.Duration // parts of Stat.Usage
	MaxRSS       int64         // bytes, of the largest process among the command and children it waited for
	LeftBehind   int           // processes that were running when the command ended
	// Terminated is true if the context ended before the command did.
	Terminated bool
	// Uncounted is true if the group could not be read, for example because another process removed
	// it. Then Stat, Settings, User and System are missing.
	Uncounted bool
}

// StartError reports that the command could not be executed.
type StartError struct {
	Missing bool // the command does not exist; otherwise it cannot be executed
	Err     error
}

func (e *StartError) Error() string { return e.Err.Error() }
func (e *StartError) Unwrap() error { return e.Err }

// ErrName is wrapped by errors about the name of a run.
var ErrName = errors.New("name of the run")

// CheckName rejects invalid names of runs. Names must start with a letter, because default names
// start with a process id.
func CheckName(name string) error {
	if !regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]{0,62}$`).MatchString(name) {
		return fmt.Errorf("%w: %q: use a letter first, then letters, digits, '.', '_' and '-', at most 63 characters", ErrName, name)
	}
	return nil
}
