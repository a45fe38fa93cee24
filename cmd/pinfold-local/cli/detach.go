package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"pinfold.dev/pinfold/lab/localcluster"
)

// stopTimeout bounds the end of a cluster, which takes well below a second; with a real
// node full of pods on a busy machine, the kernel needs more.
const stopTimeout = 2 * time.Minute

// detach starts a supervisor in a session of its own and returns when its
// cluster is ready.
func detach(ctx context.Context, options upOptions, stdout, stderr io.Writer) error {
	if state, err := localcluster.ReadState(options.dir); err == nil { // its log is in use
		return fmt.Errorf("%w in %s (process %d)", localcluster.ErrRunning, options.dir, state.Supervisor)
	}
	// The supervisor does this again; here a mistake leaves no directory.
	if _, err := nodeGroups(options.shapes, options.machines); err != nil {
		return err
	}
	if _, err := options.clusterConfig(io.Discard, nil); err != nil {
		return err
	}
	if err := localcluster.Claim(options.dir); err != nil {
		return err
	}
	log, err := os.OpenFile(localcluster.SupervisorLog(options.dir), os.O_CREATE|os.O_TRUNC|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("make the supervisor's log: %w", err)
	}
	defer log.Close()
	command, err := options.supervisorCommand(log)
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return fmt.Errorf("start the supervisor: %w", err)
	}
	s := &detached{options: options, log: log, process: command.Process, ended: make(chan struct{})}
	go func() {
		s.err = command.Wait()
		close(s.ended)
	}()
	if err := s.awaitReady(ctx, stderr); err != nil {
		return err
	}
	return announce(options.dir, stdout)
}

// supervisorCommand is this program again, in the foreground of a new session.
func (o upOptions) supervisorCommand(log *os.File) (*exec.Cmd, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	args := []string{"up", "--data-dir=" + o.dir, "--kubeconfig=" + o.kubeconfig, "--scheduler-config=" + o.schedulerConfig}
	for _, shape := range o.shapes {
		args = append(args, "--nodes="+shape)
	}
	for _, machine := range o.machines {
		args = append(args, "--machine="+machine)
	}
	if o.node {
		args = append(args, "--node", "--node-binaries="+o.binaries)
	}
	for _, flag := range o.agentFlags {
		args = append(args, "--agent-flag="+flag)
	}
	if o.keepData {
		args = append(args, "--keep-data")
	}
	command := exec.Command(executable, args...)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return command, nil
}

// detached is a supervisor in another process, a child of this one.
type detached struct {
	options upOptions
	log     *os.File // which it may have removed by now
	process *os.Process
	ended   chan struct{} // closed when the process has ended
	err     error         // how; valid after that
}

// awaitReady follows the supervisor's state. A supervisor that is not wanted
// any more is stopped.
func (s *detached) awaitReady(ctx context.Context, stderr io.Writer) error {
	progress, step := newProgress(stderr), ""
	for {
		state, err := localcluster.ReadState(s.options.dir)
		if err == nil && state.Supervisor == s.process.Pid {
			if state.Ready {
				return nil
			}
			if state.Step != step {
				step = state.Step
				progress.step(step)
			}
		}
		select {
		case <-s.ended:
			return s.failure()
		case <-ctx.Done():
			return s.stop(context.Cause(ctx))
		case <-time.After(25 * time.Millisecond):
		}
	}
}

func (s *detached) stop(cause error) error {
	_ = s.process.Signal(syscall.SIGTERM) // it may have ended already
	select {
	case <-s.ended:
		return cause
	case <-time.After(stopTimeout):
		return fmt.Errorf("%w; process %d does not end", cause, s.process.Pid)
	}
}

// failure returns what the supervisor said last, which is why it ended, or all that it wrote.
func (s *detached) failure() error {
	text, err := io.ReadAll(io.NewSectionReader(s.log, 0, 1<<20))
	if err != nil {
		return fmt.Errorf("the supervisor ended: %w (%w)", s.err, err)
	}
	if i := strings.LastIndex("\n"+string(text), "\npinfold-local: "); i >= 0 {
		return errors.New(strings.TrimSpace(strings.TrimPrefix(string(text)[i:], "pinfold-local: ")))
	}
	return fmt.Errorf("the supervisor ended: %w\n%s", s.err, strings.TrimSpace(string(text)))
}
