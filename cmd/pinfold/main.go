// Command pinfold shows the CPU topology of machines and chooses CPUs on them.
// Its manual is docs/pinfold.md.
//
// The command changes nothing on the machine, but for files that it is asked to
// write, and talks to nobody.
// Results go to standard output, messages to standard error. The exit status is
// 0 when it did what was asked, 1 when it could not, 2 when the question was
// wrong.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

func main() {
	err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "pinfold:", err)
	}
	os.Exit(exitStatus(err))
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
	if err == nil || errors.As(err, &failed) {
		return err
	}
	return fmt.Errorf("%w\nsee '%s --help'", err, command.CommandPath())
}

// failure is an error of a command that was asked rightly.
type failure struct{ err error }

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// wrongUsage is an error in the question, noticed after the command began.
type wrongUsage struct{ message string }

func (u *wrongUsage) Error() string { return u.message }

// exitStatus is 1 for a failure; every other error comes from the command line.
func exitStatus(err error) int {
	var failed *failure
	switch {
	case err == nil:
		return 0
	case errors.As(err, &failed):
		return 1
	default:
		return 2
	}
}
