package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"pinfold.dev/pinfold/lab/localcluster"
)

// stopTimeout bounds the end of a cluster, which takes well below a second.
const stopTimeout = 30 * time.Second

// detach starts a supervisor in a session of its own and returns when its
// cluster is ready.
func detach(ctx context.Context, options upOptions, stdout, stderr io.Writer) error {
	if err := os.MkdirAll(options.dir, 0o700); err != nil {
		return fmt.Errorf("make the data directory: %w", err)
	}
	if state, err := localcluster.ReadState(options.dir); err == nil { // its log is in use
		return fmt.Errorf("%w in %s (process %d)", localcluster.ErrRunning, options.dir, state.Supervisor)
	}
	logPath := localcluster.SupervisorLog(options.dir)
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
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
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	if err := options.awaitReady(ctx, command.Process, ended, stderr); err != nil {
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
	if o.keepData {
		args = append(args, "--keep-data")
	}
	command := exec.Command(executable, args...)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return command, nil
}

// awaitReady follows the supervisor's state. A supervisor that is not wanted
// any more is stopped.
func (o upOptions) awaitReady(ctx context.Context, process *os.Process, ended <-chan error, stderr io.Writer) error {
	progress, step := newProgress(stderr), ""
	for {
		state, err := localcluster.ReadState(o.dir)
		if err == nil && state.Supervisor == process.Pid {
			if state.Ready {
				return nil
			}
			if state.Step != step {
				step = state.Step
				progress.step(step)
			}
		}
		select {
		case err := <-ended:
			return o.supervisorFailed(err)
		case <-ctx.Done():
			_ = process.Signal(syscall.SIGTERM) // it may have ended already
			select {
			case <-ended:
			case <-time.After(stopTimeout):
				return fmt.Errorf("%w; process %d does not end", context.Cause(ctx), process.Pid)
			}
			return context.Cause(ctx)
		case <-time.After(25 * time.Millisecond):
		}
	}
}

// supervisorFailed returns what the supervisor wrote before it ended.
func (o upOptions) supervisorFailed(err error) error {
	path := localcluster.SupervisorLog(o.dir)
	text, readErr := os.ReadFile(path)
	if readErr != nil {
		return fmt.Errorf("the supervisor ended: %w (%w)", err, readErr)
	}
	return fmt.Errorf("the supervisor ended: %w\n%s", err, text)
}
