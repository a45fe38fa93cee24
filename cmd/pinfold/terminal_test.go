//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"pinfold.dev/pinfold/report/terminal/terminaltest"
)

// runOnTerminal runs the command in its arguments on a pseudo-terminal of its own. What
// is on standard input are keys, and what the terminal shows goes to standard output. It
// reads until the command has ended and nothing is left, which the word ttyin of
// testscript does not: on a busy machine some of the output is lost with it.
func runOnTerminal() {
	if err := onTerminal(os.Stdin, os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "terminal:", err)
		os.Exit(1)
	}
}

func onTerminal(keys io.Reader, shown io.Writer, args []string) error {
	if len(args) == 0 {
		return errors.New("no command")
	}
	master, slave, err := terminaltest.New()
	if err != nil {
		return err
	}
	defer master.Close()
	command := exec.Command(args[0], args[1:]...)
	command.Stdin, command.Stdout, command.Stderr = slave, slave, slave
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = command.Start()
	slave.Close()
	if err != nil {
		return err
	}
	go func() { _, _ = io.Copy(master, keys) }() // nobody need read them
	// The end is EIO, once no process has the other side and all is read: pty(7).
	if _, err := io.Copy(shown, master); err != nil && !errors.Is(err, syscall.EIO) {
		return err
	}
	return command.Wait()
}
