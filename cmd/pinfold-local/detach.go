package main

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

	"github.com/spf13/pflag"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/local/localcluster"
)

// stopTimeout limits the wait for the end of a cluster. A cluster ends in well below a second, but
// a real node full of pods takes longer on a busy machine.
const stopTimeout = 2 * time.Minute

// detach starts a supervisor in a new session and returns when its cluster is ready. flags are
// those of this command.
func detach(ctx context.Context, options upOptions, flags *pflag.FlagSet, stdout, stderr io.Writer) error {
	if state, err := localcluster.ReadState(options.dir); err == nil { // its supervisor uses the log
		return fmt.Errorf("%w in %s (process %d)", localcluster.ErrRunning, options.dir, state.Supervisor)
	}
	// The supervisor checks the flags again. Here, an error leaves no directory.
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
		return fmt.Errorf("create the supervisor's log: %w", err)
	}
	defer log.Close()
	command, err := supervisorCommand(flags, log)
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return fmt.Errorf("start the supervisor: %w", err)
	}
	ended, end := context.WithCancelCause(context.Background())
	go func() {
		err := command.Wait()
		if err == nil {
			err = errors.New("exit status 0")
		}
		end(err)
	}()
	if err := awaitReady(ctx, ended, options.dir, command.Process, stderr); err != nil {
		return err
	}
	if ended.Err() != nil {
		return supervisorError(log, context.Cause(ended))
	}
	return announce(options.dir, stdout)
}

// supervisorCommand returns this program with the same flags, in the foreground of a new session.
func supervisorCommand(flags *pflag.FlagSet, log *os.File) (*exec.Cmd, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	args := []string{"up"}
	flags.Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, value := range values {
			args = append(args, "--"+f.Name+"="+value)
		}
	})
	command := exec.Command(executable, append(args, "--detach=false")...)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return command, nil
}

// awaitReady waits until the supervisor is ready or has ended, and reports its steps. When ctx
// ends, it stops the supervisor.
func awaitReady(ctx, ended context.Context, dir string, supervisor *os.Process, stderr io.Writer) error {
	progress, step := frame.NewProgress(stderr), ""
	for sleep.For(ended, 25*time.Millisecond) {
		if ctx.Err() != nil {
			_ = supervisor.Signal(syscall.SIGTERM) // it may have ended already
			if sleep.For(ended, stopTimeout) {
				return fmt.Errorf("%w; process %d does not end", context.Cause(ctx), supervisor.Pid)
			}
			return context.Cause(ctx)
		}
		state, err := localcluster.ReadState(dir)
		if err != nil || state.Supervisor != supervisor.Pid {
			continue
		}
		if state.Ready {
			return nil
		}
		if state.Step != step {
			step = state.Step
			progress.Step(step)
		}
	}
	return nil
}

// follow returns a function that copies what has been written to a log since, even if the log was
// removed. Without a log it copies nothing.
func follow(path string) func(io.Writer) {
	log, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err == nil {
		_, err = log.Seek(0, io.SeekEnd)
	}
	return func(w io.Writer) {
		if err == nil {
			_, _ = io.Copy(w, log) // the end of the cluster counts, not its messages
		}
		_ = log.Close()
	}
}

// supervisorError returns the last error message in the supervisor's log, which says why it ended,
// or the whole log if it has no error message.
func supervisorError(log *os.File, exit error) error {
	text, err := io.ReadAll(io.NewSectionReader(log, 0, 1<<20))
	if err != nil {
		return fmt.Errorf("the supervisor ended: %w (%w)", exit, err)
	}
	if i := strings.LastIndex("\n"+string(text), "\npinfold-local: "); i >= 0 {
		return errors.New(strings.TrimSpace(strings.TrimPrefix(string(text)[i:], "pinfold-local: ")))
	}
	return fmt.Errorf("the supervisor ended: %w\n%s", exit, strings.TrimSpace(string(text)))
}
