package confine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"pinfold.dev/pinfold/linux/cgroup"
)

// leftRetry is how often processes that were left behind are looked for.
const leftRetry = 20 * time.Millisecond

// Run runs a command until it ends. It forwards signals that this process receives meanwhile. When
// ctx ends, the command gets SIGTERM. The cgroup is removed afterwards, also on an error. The error
// is a StartError if the command could not be executed. The result is returned as far as it is
// known, even if the group cannot be removed.
func Run(ctx context.Context, s Spec) (r *Result, err error) {
	if s.Path == "" || len(s.Args) == 0 {
		return nil, errors.New("no command given")
	}
	if s.Name != "" {
		if err := CheckName(s.Name); err != nil {
			return nil, err
		}
	}
	caught := catch()
	defer caught.release()
	machine, err := cgroup.Open("/")
	if err != nil {
		return nil, err
	}
	g, err := newGroup(ctx, machine, s)
	if err != nil {
		return nil, err
	}
	w, err := g.startWatcher(s.Stderr)
	if err != nil {
		return nil, errors.Join(err, g.remove())
	}
	r, err = g.run(ctx, s, caught)
	return r, errors.Join(err, g.end(w))
}

// end removes the group and dismisses the watcher, which must leave the group that
// this process has stepped aside to.
func (g *group) end(w *watcher) error {
	self := g.Self
	g.Self = ""
	err := g.remove()
	err = errors.Join(err, w.dismiss(), g.lock.Close())
	if g.Self = self; err != nil || self == "" {
		return err
	}
	return g.remove()
}

// run runs the command in its group and takes the figures.
func (g *group) run(ctx context.Context, s Spec, caught *signals) (*Result, error) {
	if sig := caught.pending(); sig != nil {
		return nil, fmt.Errorf("got the signal %v before the command was started", sig)
	}
	c, err := g.start(s)
	if err != nil {
		return nil, err
	}
	t := &targets{g: g, command: c.Process}
	done := make(chan struct{})
	defer close(done)
	go caught.forward(done, t.send)
	defer context.AfterFunc(ctx, func() { t.send(syscall.SIGTERM) })()
	waitErr := c.Wait()
	t.commandEnded()
	var ended *exec.ExitError
	if waitErr != nil && !errors.As(waitErr, &ended) && !errors.Is(waitErr, exec.ErrWaitDelay) {
		return nil, fmt.Errorf("wait for the command: %w", waitErr)
	}
	r := &Result{Uncounted: true}
	r.ofProcess(c.ProcessState)
	if r.LeftBehind, err = g.endAll(s); err != nil {
		return r, err
	}
	r.Wall = time.Duration(monotonic()) - c.began
	err = g.read(r)
	r.Uncounted = err != nil
	return r, err
}

// endAll waits for, or kills, what the command has left behind, and says how many
// processes these were.
func (g *group) endAll(s Spec) (int, error) {
	left, err := g.fs.ProcessesBelow(g.Name, g.Of...)
	if err != nil || len(left) == 0 {
		return 0, err
	}
	for now := left; s.Wait && err == nil && len(now) > 0; {
		time.Sleep(leftRetry)
		now, err = g.fs.ProcessesBelow(g.Name, g.Of...)
	}
	if err != nil || s.Wait {
		return len(left), err
	}
	ctx, cancel := context.WithTimeout(context.Background(), killPatience)
	defer cancel()
	return len(left), g.fs.Kill(ctx, g.Name, g.Of...)
}

// ofProcess notes how the command ended.
func (r *Result) ofProcess(p *os.ProcessState) {
	status := p.Sys().(syscall.WaitStatus)
	r.ExitStatus = status.ExitStatus()
	if status.Signaled() {
		r.Signal = status.Signal()
		r.ExitStatus = 128 + int(r.Signal)
	}
	r.MaxRSS = p.SysUsage().(*syscall.Rusage).Maxrss << 10
}

// read reads what the kernel counted.
func (g *group) read(r *Result) (err error) {
	if r.Settings, err = g.fs.ReadParts(g.Name, cgroup.Parts{Bandwidth: true, Idle: true}); err != nil {
		return err
	}
	if slices.Contains(g.Of, cgroup.CPUSet) {
		if r.Settings.Effective, err = g.fs.Effective(g.Name); err != nil {
			return err
		}
	}
	if r.Stat, err = g.fs.Stat(g.Name); err != nil {
		return err
	}
	user, system, err := g.fs.UserSystem(g.Name)
	r.User, r.System = split(r.Stat.Usage, user, system)
	return err
}

// split divides usage as user and system time do. On version 1 these are counted in
// clock ticks and need not add up to it; cputime_adjust in kernel/sched/cputime.c does
// the same for processes. Short commands see no tick at all: both are 0 then.
func split(usage, user, system time.Duration) (time.Duration, time.Duration) {
	if user+system == 0 {
		return 0, 0
	}
	user = time.Duration(float64(usage) * float64(user) / float64(user+system))
	return user, usage - user
}

// targets are the processes that get this one's signals: the command, and once it has
// ended those that it has left behind.
type targets struct {
	g       *group
	mu      sync.Mutex
	command *os.Process // nil when it has ended
}

// send sends a signal. Processes may just have ended, which is nobody's fault.
func (t *targets) send(sig syscall.Signal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.command != nil {
		_ = t.command.Signal(sig)
		return
	}
	left, _ := t.g.fs.ProcessesBelow(t.g.Name, t.g.Of...)
	for _, pid := range left {
		_ = syscall.Kill(pid, sig)
	}
}

func (t *targets) commandEnded() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.command = nil
}
