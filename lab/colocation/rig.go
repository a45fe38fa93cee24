package colocation

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/lab/load"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/confine"
)

// rig is a running service and batch work, each in a group of its own below the same parent.
type rig struct {
	config        Config
	groups        *cgroup.FS
	proc          procfs.FS
	all           cpuset.Set // CPUs of both
	online, batch string     // groups
	sender        *load.HTTP
	cancel        context.CancelCauseFunc
	running       sync.WaitGroup
	mu            sync.Mutex
	failed        error
}

// start starts the service and the batch work, which is stopped (SIGSTOP) at first. The context that it
// returns ends with either of them.
func start(parent context.Context, c Config) (_ *rig, _ context.Context, err error) {
	groups, err := cgroup.Open("/")
	if err != nil {
		return nil, nil, err
	}
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return nil, nil, fmt.Errorf("open /proc: %w", err)
	}
	ctx, cancel := context.WithCancelCause(parent)
	r := &rig{config: c, groups: groups, proc: proc, cancel: cancel}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.stop())
		}
	}()
	var address string
	if r.online, address, err = r.workload(ctx, "online", c.Workload("web", "--listen=127.0.0.1:0")); err != nil {
		return nil, nil, err
	}
	if r.batch, _, err = r.workload(ctx, "batch", c.Workload("batch", "--threads="+strconv.Itoa(c.Threads))); err != nil {
		return nil, nil, err
	}
	if err := r.signalBatch(unix.SIGSTOP); err != nil {
		return nil, nil, err
	}
	if r.sender, err = load.NewHTTP(fmt.Sprintf("http://%s/?hash=%d", address, c.Hash)); err != nil {
		return nil, nil, err
	}
	return r, ctx, r.schedule(unix.SCHED_FIFO, 1)
}

// schedule sets the policy of the threads of this process, and of those that they start. With a
// real-time policy the load generator does not wait for CPUs, like clients on other machines.
func (r *rig) schedule(policy, priority uint32) error {
	threads, err := r.proc.AllThreads(os.Getpid())
	if err != nil {
		return fmt.Errorf("list the threads of the load generator: %w", err)
	}
	for _, thread := range threads {
		attributes := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: policy, Priority: priority}
		switch err := unix.SchedSetAttr(thread.PID, &attributes, 0); {
		case errors.Is(err, unix.EPERM):
			return errors.New("the load generator may not have real-time priority: run as root, or with CAP_SYS_NICE")
		case err != nil && !errors.Is(err, unix.ESRCH): // it has ended
			return os.NewSyscallError("sched_setattr", err)
		}
	}
	return nil
}

// workload starts a program in a group of its own. It returns the group, and the last word of the
// line that the program prints when it is ready.
func (r *rig) workload(ctx context.Context, what string, command []string) (group, word string, err error) {
	name := fmt.Sprintf("colocation-%s-%d", what, os.Getpid())
	output, input, err := os.Pipe()
	if err != nil {
		return "", "", fmt.Errorf("start %s: %w", what, err)
	}
	r.running.Go(func() {
		defer input.Close()
		_, err := confine.Run(ctx, confine.Spec{Name: name, Path: command[0], Args: command, Stdout: input, Stderr: os.Stderr, CPUs: r.choose,
			Notify: func(message string) { r.config.Progress(message) }})
		if err == nil && ctx.Err() == nil {
			err = errors.New("it ended")
		}
		if err != nil {
			r.fail(fmt.Errorf("%s: %w", what, err))
		}
	})
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		r.cancel(err)
		r.running.Wait()
		return "", "", errors.Join(fmt.Errorf("%s did not start: %w", what, err), output.Close())
	}
	r.running.Go(func() { _, _ = io.Copy(io.Discard, output); output.Close() })
	runs, err := confine.Runs(r.groups)
	if err != nil {
		return "", "", err
	}
	for _, run := range runs {
		if strings.HasSuffix(filepath.Base(run), name) {
			fields := strings.Fields(line)
			return run, fields[len(fields)-1], nil
		}
	}
	return "", "", fmt.Errorf("%s has no group: %v", what, runs)
}

// choose lets both programs run on all CPUs that this process may run on.
func (r *rig) choose(room confine.Room) (cpuset.Set, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = room.Parent.Intersection(room.Affinity)
	return r.all, nil
}

// cpus returns the CPUs that choose has chosen.
func (r *rig) cpus() cpuset.Set {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all
}

func (r *rig) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = errors.Join(r.failed, err)
	r.cancel(err)
}

// explain returns why an experiment failed: if a program has ended, that is the cause of every other
// error. What is left to do then, removing its group, is bounded in time, and ends ctx.
func (r *rig) explain(ctx context.Context, err error) error {
	for _, group := range []string{r.online, r.batch} {
		if pids, gone := r.groups.ProcessesBelow(group, cgroup.CPU); gone == nil && len(pids) == 0 {
			<-ctx.Done()
			return context.Cause(ctx)
		}
	}
	return err
}

// stop ends both programs, removes their groups, and returns why one of them had failed.
func (r *rig) stop() error {
	if r.sender != nil {
		r.sender.Close()
	}
	err := r.schedule(unix.SCHED_NORMAL, 0)
	if r.batch != "" {
		_ = r.signalBatch(unix.SIGCONT) // it may have ended
	}
	r.cancel(nil)
	r.running.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.failed, err)
}

// Machine is where an experiment ran.
type Machine struct {
	Kernel string `json:"kernel"`
	Model  string `json:"model"` // of the CPUs
	CPUs   int    `json:"cpus"`
	// Siblings is whether there are CPUs that share a core.
	Siblings bool `json:"siblings"`
}

// thisMachine describes this machine as far as it is known.
func thisMachine() Machine {
	m := Machine{CPUs: runtime.NumCPU()}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		m.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return m
	}
	infos, _ := proc.CPUInfo()
	for _, info := range infos {
		m.Model = info.ModelName
		m.Siblings = m.Siblings || info.Siblings > info.CPUCores
	}
	return m
}
