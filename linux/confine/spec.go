package confine

import (
	"io"
	"syscall"
	"time"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup"
)

// Spec is a command and how to run it.
type Spec struct {
	// Name is that of the control group, after a prefix: see CheckName. Without one the
	// group has a name of its own.
	Name string
	Path string   // of the file to execute; see Look
	Args []string // the command's name and its arguments
	// Quota, Period, Burst and Idle; nil leaves to the kernel's default. CPUs is not
	// looked at.
	Settings cgroup.Wanted
	// CPUs chooses the CPUs for the command. With nil it may run on all that this
	// process may.
	CPUs func(Room) (cpuset.Set, error)
	// Wait says that processes that the command leaves behind are waited for;
	// otherwise they are killed.
	Wait           bool
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Notify is told what the user should know. It must not be nil.
	Notify func(message string)
}

// Room is the set of CPUs to choose from.
type Room struct {
	Parent   cpuset.Set // CPUs of the control group that the command's is made in
	Affinity cpuset.Set // CPUs that this process may run on: taskset(1)
	Taken    cpuset.Set // CPUs chosen for other runs that are under way here
}

// Result is what a command did.
type Result struct {
	ExitStatus int            // 0 to 255; 128 + Signal when that ended it
	Signal     syscall.Signal // that ended it; 0 if none did
	Settings   cgroup.Settings
	Wall       time.Duration // from the command's start to the end of all its processes
	// Stat is what the kernel counted of all processes of the group, those that had
	// their end forced on them included.
	Stat         cgroup.Stat
	User, System time.Duration // parts of Stat.Usage
	MaxRSS       int64         // bytes, of the largest process among the command and children it waited for
	LeftBehind   int           // processes that were running when the command ended
	// Uncounted says that the group could not be read, since somebody else has removed it, say. Stat,
	// Settings, User and System are missing then.
	Uncounted bool
}

// StartError reports that the command could not be executed.
type StartError struct {
	Missing bool // there is no such command; otherwise it cannot be executed
	Err     error
}

func (e *StartError) Error() string { return e.Err.Error() }
func (e *StartError) Unwrap() error { return e.Err }
