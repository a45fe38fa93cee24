package confine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
)

// leftBehindPoll is the interval of checks for processes that were left behind.
const leftBehindPoll = 20 * time.Millisecond

// Run runs a command until it ends. It forwards signals that this process receives meanwhile. When
// ctx ends, the command gets SIGTERM. The group is removed afterwards, also on an error. The error
// is a StartError if the command could not be executed. Run returns the result as far as it is
// known, even if it cannot remove the group.
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
	machine, err := cgroup.OpenUsage("/") // it creates groups with the controllers that it needs
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

// end removes the group and stops the watcher. The watcher must end before the group that this
// process has moved to can be removed.
func (g *group) end(w *watcher) error {
	self := g.Self
	g.Self = ""
	err := g.remove()
	err = errors.Join(err, w.stop(), g.lock.Close())
	if g.Self = self; err != nil || self == "" {
		return err
	}
	return g.remove()
}

// run runs the command in its group and reads the statistics.
func (g *group) run(ctx context.Context, s Spec, caught *signals) (*Result, error) {
	if sig := caught.pending(); sig != nil {
		return nil, fmt.Errorf("got the signal %v before the command was started", sig)
	}
	c, err := g.start(s)
	if err != nil {
		return nil, err
	}
	t := &signalTargets{g: g, command: c.Process}
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
	r := &Result{Uncounted: true, Terminated: ctx.Err() != nil}
	r.setExit(c.ProcessState)
	if r.LeftBehind, err = g.endAll(s); err != nil {
		return r, err
	}
	r.Wall = time.Duration(monotonic()) - c.began
	err = g.read(r)
	r.Uncounted = err != nil
	return r, err
}

// endAll waits for the processes that the command has left behind, or kills them. It returns their
// number.
func (g *group) endAll(s Spec) (int, error) {
	processes, err := cgrouptree.ProcessesBelow(g.fs, g.Name, g.Controllers...)
	if len(processes) == 0 {
		return 0, err
	}
	for now := processes; s.Wait && err == nil && len(now) > 0; {
		time.Sleep(leftBehindPoll)
		now, err = cgrouptree.ProcessesBelow(g.fs, g.Name, g.Controllers...)
	}
	if s.Wait {
		return len(processes), err
	}
	ctx, cancel := context.WithTimeout(context.Background(), killPatience)
	defer cancel()
	return len(processes), cgrouptree.Kill(ctx, g.fs, g.Name, g.Controllers...)
}

// setExit sets how the command ended.
func (r *Result) setExit(p *os.ProcessState) {
	status := p.Sys().(syscall.WaitStatus)
	r.ExitStatus = status.ExitStatus()
	if status.Signaled() {
		r.Signal = status.Signal()
		r.ExitStatus = 128 + int(r.Signal)
	}
	r.MaxRSS = p.SysUsage().(*syscall.Rusage).Maxrss << 10
}

// read reads the group's settings and statistics.
func (g *group) read(r *Result) (err error) {
	if r.Settings, err = g.fs.ReadParts(g.Name, cgroup.Parts{Bandwidth: true, Idle: true}); err != nil {
		return err
	}
	if slices.Contains(g.Controllers, cgroup.CPUSet) {
		if r.Settings.Effective, err = g.fs.Effective(g.Name); err != nil {
			return err
		}
	}
	if r.Stat, err = cgroupstat.Read(g.fs, g.Name); err != nil {
		return err
	}
	user, system, err := cgroupstat.UserSystem(g.fs, g.Name)
	r.User, r.System = split(r.Stat.Usage, user, system)
	return err
}

// split divides usage in proportion to user and system time. On version 1 these are counted in
// clock ticks, so their sum differs from usage (cputime_adjust in kernel/sched/cputime.c does the
// same for processes). Both results are 0 for a command that was shorter than a tick.
func split(usage, user, system time.Duration) (time.Duration, time.Duration) {
	if user+system == 0 {
		return 0, 0
	}
	user = time.Duration(float64(usage) * float64(user) / float64(user+system))
	return user, usage - user
}

// signalTargets are the processes to which this process's signals are forwarded: the command, and
// after its end the processes that it has left behind.
type signalTargets struct {
	g       *group
	mu      sync.Mutex
	command *os.Process // nil after its end
}

// send sends a signal. It ignores errors, because the processes may just have ended.
func (t *signalTargets) send(sig syscall.Signal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.command != nil {
		_ = t.command.Signal(sig)
		return
	}
	processes, _ := cgrouptree.ProcessesBelow(t.g.fs, t.g.Name, t.g.Controllers...)
	for _, pid := range processes {
		_ = syscall.Kill(pid, sig)
	}
}

func (t *signalTargets) commandEnded() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.command = nil
}

// signals receives the signals that this process gets in place of the command.
type signals struct{ c chan os.Signal }

// catch starts to receive signals. It leaves out HUP and INT if this process was started to ignore them (nohup):
// the command ignores them, too. Of other signals the Go runtime does not tell.
func catch() *signals {
	s := &signals{make(chan os.Signal, 16)}
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2} {
		if !signal.Ignored(sig) {
			signal.Notify(s.c, sig)
		}
	}
	return s
}

func (s *signals) release() { signal.Stop(s.c) }

// pending returns a signal that was received already, or nil.
func (s *signals) pending() os.Signal {
	select {
	case sig := <-s.c:
		return sig
	default:
		return nil
	}
}

// forward forwards signals until done is closed.
func (s *signals) forward(done <-chan struct{}, send func(syscall.Signal)) {
	for {
		select {
		case <-done:
			return
		case sig := <-s.c:
			if !fromKeyboard(sig) {
				send(sig.(syscall.Signal))
			}
		}
	}
}

// fromKeyboard reports whether a signal was probably typed. The terminal then sends it to the whole
// process group, which includes the command. Forwarding it would be wrong, because some programs
// give up at the second signal. Go does not report the sender of a signal, so fromKeyboard checks
// whether this process group is the terminal's foreground group.
func fromKeyboard(sig os.Signal) bool {
	if sig != syscall.SIGINT && sig != syscall.SIGQUIT {
		return false
	}
	terminal, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer terminal.Close()
	for {
		group, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPGRP)
		if !errors.Is(err, unix.EINTR) {
			return err == nil && group == unix.Getpgrp()
		}
	}
}
