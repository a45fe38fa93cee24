package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
)

// First arguments of this program as its own helper.
const (
	gateWord    = "confine:gate"
	watcherWord = "confine:watcher"
)

// Helper runs this process as a helper if its arguments say so. If ok is true, the helper has
// finished and the program must exit with the status.
func Helper(args []string) (status int, ok bool) {
	switch {
	case len(args) == 4 && args[0] == watcherWord:
		return watch(args[1], args[2], args[3]), true
	case len(args) > 4 && args[0] == gateWord:
		runGate(args[1], args[2], args[3], args[4:])
		return 1, true
	}
	// A helper with wrong arguments must not become another run.
	return 1, len(args) > 0 && (args[0] == watcherWord || args[0] == gateWord)
}

// helperCommand is this program as its own helper.
func helperCommand(args ...string) *exec.Cmd {
	return &exec.Cmd{Path: "/proc/self/exe", Args: append(os.Args[:1:1], args...)}
}

// report is a message of the gate over its pipe: when it executes the command, and, if that fails,
// why. The pipe closes when the command is executed.
type report struct {
	Began int64         // CLOCK_MONOTONIC, ns
	Enter string        // why the group could not be entered
	Exec  syscall.Errno // why the command could not be executed
}

// runGate moves this process to the group and executes the command in its place. It returns only if
// that fails.
func runGate(pipe, in, path string, args []string) {
	fd, err := strconv.Atoi(pipe)
	if err != nil {
		return
	}
	unix.CloseOnExec(fd)
	reports := json.NewEncoder(os.NewFile(uintptr(fd), "report"))
	if err := enter(in); err != nil {
		_ = reports.Encode(report{Enter: err.Error()})
		return
	}
	if reports.Encode(report{Began: monotonic()}) != nil {
		return // the run has ended
	}
	err = syscall.Exec(path, args, os.Environ())
	r := report{Exec: syscall.ENOEXEC}
	errors.As(err, &r.Exec)
	_ = reports.Encode(r)
}

func enter(text string) error {
	g, err := openGroup(text)
	if err != nil {
		return err
	}
	if err := cgrouptree.Move(g.fs, g.Name+leaf, 0, g.Controllers...); err != nil {
		return err
	}
	if !slices.Contains(g.Controllers, cgroup.CPUSet) {
		return nil
	}
	cpus, err := g.fs.Effective(g.Name + leaf)
	if err != nil {
		return err
	}
	return widenAffinity(cpus)
}

// widenAffinity replaces a narrower affinity (taskset), which kernels since 6.2 preserve in the
// cpuset. It applies to this thread, which executes the command.
func widenAffinity(cpus cpuset.Set) error {
	runtime.LockOSThread()
	var mask unix.CPUSet
	for c := range cpus.All() {
		mask.Set(int(c))
	}
	if err := unix.SchedSetaffinity(0, &mask); err != nil {
		return fmt.Errorf("use CPUs %s: %w", cpus, err)
	}
	return nil
}

// openGroup opens the group of the run in a helper process.
func openGroup(text string) (*group, error) {
	g := &group{}
	if err := json.Unmarshal([]byte(text), g); err != nil {
		return nil, fmt.Errorf("%q is not a group: %w", text, err)
	}
	machine, err := cgroup.OpenUsage("/")
	if err != nil {
		return nil, err
	}
	g.fs = machine.Within(g.Roots)
	return g, nil
}

// child is the running command.
type child struct {
	*exec.Cmd
	began time.Duration // CLOCK_MONOTONIC
}

// start starts the command in its group.
func (g *group) start(s Spec) (*child, error) {
	text, err := json.Marshal(g)
	if err != nil {
		return nil, err
	}
	var pipe [2]int
	// The gate inherits the write end under the same number. With ExtraFiles it would replace a
	// descriptor that the user passes to the command.
	if err := unix.Pipe2(pipe[:], 0); err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	unix.CloseOnExec(pipe[0])
	reports := os.NewFile(uintptr(pipe[0]), "reports")
	defer reports.Close()
	c := &child{Cmd: helperCommand(append([]string{gateWord, strconv.Itoa(pipe[1]), string(text), s.Path}, s.Args...)...)}
	c.Stdin, c.Stdout, c.Stderr = s.Stdin, s.Stdout, s.Stderr
	c.WaitDelay = time.Second // for processes that still have our pipes open
	err = c.Start()
	unix.Close(pipe[1])
	if err != nil {
		return nil, fmt.Errorf("start the command: %w", err)
	}
	if err := c.awaitExec(reports, s); err != nil {
		var ended *exec.ExitError
		if waitErr := c.Wait(); waitErr != nil && !errors.As(waitErr, &ended) {
			err = errors.Join(err, waitErr)
		}
		return nil, err
	}
	return c, nil
}

// awaitExec returns when the gate has executed the command or failed.
func (c *child) awaitExec(reports io.Reader, s Spec) error {
	for d := json.NewDecoder(reports); ; {
		var r report
		err := d.Decode(&r)
		switch {
		case errors.Is(err, io.EOF) && c.began != 0:
			return nil
		case err != nil:
			return errors.New("start the command: the helper process was ended before it executed the command")
		case r.Enter != "":
			return errors.New(r.Enter)
		case r.Exec != 0:
			return execError(s.Path, r.Exec)
		}
		c.began = time.Duration(r.Began)
	}
}

func execError(path string, errno syscall.Errno) error {
	err := fmt.Errorf("execute %s: %w", path, errno)
	switch errno {
	case syscall.ENOEXEC:
		err = fmt.Errorf("%w: it is not a program for this machine, and has no #! line that names an interpreter", err)
	case syscall.ENOENT:
		err = fmt.Errorf("%w: the interpreter or loader that it names does not exist", err)
	}
	return &StartError{Missing: errno == syscall.ENOENT, Err: err}
}

// Look finds the executable file of a command as shells do. The error is a StartError.
func Look(name string) (string, error) {
	if name == "" {
		return "", &StartError{Missing: true, Err: errors.New("the command's name is empty")}
	}
	path, err := exec.LookPath(name)
	switch {
	case err == nil, errors.Is(err, exec.ErrDot):
		return path, nil
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return "", &StartError{Missing: true, Err: fmt.Errorf("%s: no such command: give a path, or the name of a command in PATH", name)}
	}
	return "", &StartError{Err: fmt.Errorf("%s: cannot be executed: %w", name, errors.Unwrap(err))}
}

func monotonic() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err) // every Linux has it
	}
	return now.Nano()
}
