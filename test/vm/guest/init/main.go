// Command init is the first process of the virtual machines of test/vm. It mounts the file systems
// that programs need, runs the programs of the [guest.Config], reports their output and exit
// status, and powers the machine off.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/test/vm/guest"
)

func main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "init: runs only as the first process of a virtual machine, see test/vm")
		os.Exit(2)
	}
	// When its first process ends, the kernel panics, and that ends the machine.
	port, err := openPort()
	if err != nil {
		panic(err)
	}
	events := &eventWriter{to: json.NewEncoder(port)}
	if err := run(events); err != nil {
		events.write(guest.Event{Failed: err.Error()})
	}
	events.write(guest.Event{Done: true})
	_ = unix.IoctlSetInt(int(port.Fd()), unix.TCSBRK, 1) // waits until everything is sent
	panic(unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF))
}

func openPort() (*os.File, error) {
	if err := unix.Mkdir("/dev", 0o755); err != nil && !os.IsExist(err) {
		return nil, err
	}
	for _, device := range []struct {
		name         string
		major, minor uint32
	}{{"/dev/null", 1, 3}, {guest.Port, 4, 65}} {
		err := unix.Mknod(device.name, unix.S_IFCHR|0o600, int(unix.Mkdev(device.major, device.minor)))
		if err != nil && !os.IsExist(err) {
			return nil, fmt.Errorf("make %s: %w", device.name, err)
		}
		if err := os.Chmod(device.name, 0o666); err != nil { // some tests run as another user
			return nil, err
		}
	}
	return os.OpenFile(guest.Port, os.O_WRONLY, 0)
}

// eventWriter writes the events of several goroutines.
type eventWriter struct {
	mu sync.Mutex
	to *json.Encoder
}

// write writes one event. The test ends a machine whose events it does not receive.
func (s *eventWriter) write(e guest.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.to.Encode(e)
}

func run(events *eventWriter) error {
	if err := mountAll(); err != nil {
		return err
	}
	text, err := os.ReadFile(guest.ConfigFile)
	if err != nil {
		return err
	}
	var config guest.Config
	if err := json.Unmarshal(text, &config); err != nil {
		return fmt.Errorf("read %s: %w", guest.ConfigFile, err)
	}
	if err := takeOffline(config.Offline); err != nil {
		return err
	}
	for _, p := range config.Programs {
		ended := ""
		if err := runProgram(p, events); err != nil {
			ended = err.Error()
		}
		events.write(guest.Event{Program: p.Name, Ended: &ended})
	}
	return nil
}

func mountAll() error {
	for _, m := range []struct{ kind, at string }{
		{"proc", "/proc"}, {"sysfs", "/sys"}, {"tmpfs", "/tmp"}, {"cgroup2", "/sys/fs/cgroup"},
	} {
		if err := os.MkdirAll(m.at, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.at, m.kind, 0, ""); err != nil {
			return fmt.Errorf("mount %s at %s: %w: the kernel may lack it", m.kind, m.at, err)
		}
	}
	const control = "/sys/fs/cgroup/cgroup.subtree_control"
	if err := os.WriteFile(control, []byte("+cpu +cpuset"), 0); err != nil {
		return fmt.Errorf("%w: the kernel may lack a controller", err)
	}
	return nil
}

func takeOffline(cpus cpuset.Set) error {
	for c := range cpus.All() {
		if err := os.WriteFile(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/online", c), []byte("0"), 0); err != nil {
			return err
		}
	}
	return nil
}

func runProgram(p guest.Program, events *eventWriter) error {
	ctx, cancel := context.WithTimeout(context.Background(), p.Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.Path, p.Args...)
	cmd.Env = []string{"PATH=/bin", "HOME=/tmp", "TMPDIR=/tmp", guest.Env + "=1"}
	cmd.WaitDelay = time.Second
	out := outputOf{p.Name, events}
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run()
	if ctx.Err() != nil {
		return fmt.Errorf("timeout after %v", p.Timeout)
	}
	return err
}

// outputOf reports the output of a program as events.
type outputOf struct {
	program string
	events  *eventWriter
}

var _ io.Writer = outputOf{}

func (o outputOf) Write(b []byte) (int, error) {
	o.events.write(guest.Event{Program: o.program, Output: string(b)})
	return len(b), nil
}
