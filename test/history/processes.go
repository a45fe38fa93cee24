package history

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/lab/localcluster"
	"pinfold.dev/pinfold/lab/supervisor"
)

// Processes are the components of a local cluster.
type Processes struct {
	Dir string // the cluster's data directory

	mu      sync.Mutex
	stopped map[string]int // by component
}

// Signal sends a signal to a component as soon as that serves, because a supervisor gives
// up on what is killed again and again before it does. SIGCONT goes to the process that
// was stopped, if it is still there.
func (p *Processes) Signal(ctx context.Context, component string, signal syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if signal == syscall.SIGCONT {
		pid := p.stopped[component]
		delete(p.stopped, component)
		return send(pid, signal)
	}
	for deadline := time.Now().Add(patience); ; {
		state, err := localcluster.ReadState(p.Dir)
		status, _ := state.Component(component)
		if err == nil && status.State == supervisor.Ready {
			if signal == syscall.SIGSTOP {
				if p.stopped == nil {
					p.stopped = map[string]int{}
				}
				p.stopped[component] = status.PID
			}
			return send(status.PID, signal)
		}
		if time.Now().After(deadline) || !sleep.For(ctx, retryPause) {
			return fmt.Errorf("%s is %q: %w", component, status.State, errors.Join(err, ctx.Err()))
		}
	}
}

func send(pid int, signal syscall.Signal) error {
	if pid == 0 {
		return nil
	}
	if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal process %d: %w", pid, err)
	}
	return nil
}
