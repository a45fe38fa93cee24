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

// runOnTerminal runs the command in its arguments on a pseudo-terminal. It passes standard input on
// as keys, and writes what the terminal shows to standard output. It reads until the command has
// ended and nothing is left. ttyin of testscript does not, and loses output on a busy machine.
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
	go func() { _, _ = io.Copy(master, keys) }() // the command may end without reading them
	// EIO is the end: no process has the other side open, and everything is read; see pty(7).
	if _, err := io.Copy(shown, master); err != nil && !errors.Is(err, syscall.EIO) {
		return err
	}
	return command.Wait()
}
