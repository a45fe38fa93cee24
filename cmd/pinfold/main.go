// Command pinfold shows the CPU topology of machines, chooses CPUs, runs commands with CPU
// settings, shows and records the CPU usage of cgroups, and computes the effect of limits and
// burst. Its manual is docs/pinfold.md.
//
// The command changes nothing on the machine, except files that it is asked to write and the
// cgroups in which "pinfold run" runs a command, and it does not use the network. Results go to
// standard output, messages to standard error. The exit status is 0 on success, 1 on failure, and 2
// on wrong usage. "pinfold run" exits with the status of its command: see runStatus.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"pinfold.dev/pinfold/report"
)

const runName = "run"

// The statuses of "pinfold run" that are not its command's, as of env(1), timeout(1)
// and shells.
const (
	statusOurs    = 125 // what pinfold itself could not do, wrong usage included
	statusNotRun  = 126 // the command cannot be executed
	statusMissing = 127 // there is no such command
)

func main() {
	if status, ok := runHelper(os.Args[1:]); ok {
		os.Exit(status)
	}
	err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	if err != nil && err.Error() != "" {
		fmt.Fprintln(os.Stderr, "pinfold:", printable(err.Error()))
	}
	os.Exit(exitStatus(err))
}

// printable is report.Printable for a text of several lines.
func printable(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = report.Printable(lines[i])
	}
	return strings.Join(lines, "\n")
}

// run executes one command line.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	command, err := root.ExecuteContextC(ctx)
	var failed *failure
	if err != nil && !errors.As(err, &failed) {
		err = fmt.Errorf("%w\nsee '%s --help'", err, command.CommandPath())
	}
	if command.Name() == runName {
		return runStatus(err)
	}
	return err
}

// failure is an error of a command that was asked rightly.
type failure struct{ err error }

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// wrongUsage is an error in the question, noticed after the command began.
type wrongUsage struct{ message string }

func (u *wrongUsage) Error() string { return u.message }

// exit is an exit status of its own, with or without something to say.
type exit struct {
	status int
	err    error
}

func (e *exit) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}
func (e *exit) Unwrap() error { return e.err }

// exitStatus is 1 for a failure; every other error that is no exit comes from the
// command line.
func exitStatus(err error) int {
	var own *exit
	var failed *failure
	switch {
	case err == nil:
		return 0
	case errors.As(err, &own):
		return own.status
	case errors.As(err, &failed):
		return 1
	default:
		return 2
	}
}
