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
		fmt.Fprintln(os.Stderr, "init: to be run as the first process of a virtual machine, see test/vm")
		os.Exit(2)
	}
	// The kernel panics when its first process ends, and so ends the machine.
	port, err := openPort()
	if err != nil {
		panic(err)
	}
	say := &speaker{to: json.NewEncoder(port)}
	if err := run(say); err != nil {
		say.event(guest.Event{Failed: err.Error()})
	}
	say.event(guest.Event{Done: true})
	_ = unix.IoctlSetInt(int(port.Fd()), unix.TCSBRK, 1) // until all is sent
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

// speaker writes events, of several goroutines.
type speaker struct {
	mu sync.Mutex
	to *json.Encoder
}

// event writes one event. A machine that cannot speak is ended by its test.
func (s *speaker) event(e guest.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.to.Encode(e)
}

func run(say *speaker) error {
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
		if err := runProgram(p, say); err != nil {
			ended = err.Error()
		}
		say.event(guest.Event{Program: p.Name, Ended: &ended})
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
			return fmt.Errorf("mount %s at %s: %w; is it in the kernel's configuration?", m.kind, m.at, err)
		}
	}
	const control = "/sys/fs/cgroup/cgroup.subtree_control"
	if err := os.WriteFile(control, []byte("+cpu +cpuset"), 0); err != nil {
		return fmt.Errorf("%w; are both controllers in the kernel's configuration?", err)
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

func runProgram(p guest.Program, say *speaker) error {
	ctx, cancel := context.WithTimeout(context.Background(), p.Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.Path, p.Args...)
	cmd.Env = []string{"PATH=/bin", "HOME=/tmp", "TMPDIR=/tmp", guest.Env + "=1"}
	cmd.WaitDelay = time.Second
	out := outputOf{p.Name, say}
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run()
	if ctx.Err() != nil {
		return fmt.Errorf("not done within %v", p.Timeout)
	}
	return err
}

// outputOf says what a program prints.
type outputOf struct {
	program string
	say     *speaker
}

var _ io.Writer = outputOf{}

func (o outputOf) Write(b []byte) (int, error) {
	o.say.event(guest.Event{Program: o.program, Output: string(b)})
	return len(b), nil
}
