// Command init is the first process of the virtual machines of test/vm. It mounts the file systems
// that programs need, runs the programs of the [guest.Config], reports their output and exit
// status, and powers the machine off. In a machine with a [guest.System] it switches to that root
// and runs the programs as "init run", in a process below itself or below systemd.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/test/vm/guest"
)

func main() {
	if os.Getpid() != 1 && !slices.Equal(os.Args[1:], []string{"run"}) {
		fmt.Fprintln(os.Stderr, "init: runs only in a virtual machine, see test/vm")
		os.Exit(2)
	}
	// When its first process ends, the kernel panics, and that ends the machine.
	port, err := openPort()
	if err != nil {
		panic(err)
	}
	events := &eventWriter{to: json.NewEncoder(port)}
	events.write(guest.Event{Alive: true})
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
	text, err := os.ReadFile(guest.ConfigFile)
	if err != nil {
		return err
	}
	var config guest.Config
	if err := json.Unmarshal(text, &config); err != nil {
		return fmt.Errorf("read %s: %w", guest.ConfigFile, err)
	}
	if os.Getpid() == 1 {
		if config.System != nil {
			return startSystem(config.System, text)
		}
		if err := mountAll(); err != nil {
			return err
		}
		if err := setUpLoopback(); err != nil && !errors.Is(err, unix.EAFNOSUPPORT) && !errors.Is(err, unix.ENOSYS) {
			return err
		}
	}
	if err := takeOffline(config.Offline); err != nil {
		return err
	}
	if config.System != nil {
		go func() {
			for range time.Tick(guest.Beat) {
				events.write(guest.Event{Alive: true})
			}
		}()
	}
	for _, p := range config.Programs {
		ended := ""
		if err := runProgram(p, events); errors.Is(err, errStuck) {
			return fmt.Errorf("%s: %w", p.Name, err)
		} else if err != nil {
			ended = err.Error()
		}
		events.write(guest.Event{Program: p.Name, Ended: &ended})
	}
	return nil
}

// startSystem starts the system, which runs the programs. It returns only after an error.
func startSystem(system *guest.System, config []byte) error {
	if err := switchRoot(system, config); err != nil {
		return err
	}
	for _, m := range []struct{ kind, at string }{{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}} {
		if err := mount(m.kind, m.at, ""); err != nil {
			return err
		}
	}
	if err := mountShares(system); err != nil {
		return err
	}
	if err := setUpLoopback(); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(hostname)); err != nil {
		return err
	}
	if system.Systemd {
		return startSystemd()
	}
	if err := mountSystem(); err != nil {
		return err
	}
	return runAsChild()
}

// searchPath is the programs' PATH.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func mountAll() error {
	for _, m := range []struct{ kind, at string }{
		{"proc", "/proc"}, {"sysfs", "/sys"}, {"debugfs", "/sys/kernel/debug"}, {"tmpfs", "/tmp"}, {"cgroup2", "/sys/fs/cgroup"},
	} {
		if err := mount(m.kind, m.at, ""); err != nil {
			return err
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

// killTimeout is how long a killed program may take to end. Without a bound, a program that waits
// in the kernel for a CPU or a lock would stop the machine until the test gives up, and hide the
// cause.
const killTimeout = time.Minute

var errStuck = errors.New("the program does not end after it was killed; the console has the tasks that wait in the kernel")

func runProgram(p guest.Program, events *eventWriter) error {
	ctx, cancel := context.WithTimeout(context.Background(), p.Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.Path, p.Args...)
	temporary := "/tmp"
	if info, err := os.Stat(guest.DataDir); err == nil && info.IsDir() {
		temporary = guest.DataDir
	}
	cmd.Dir = p.Dir
	cmd.Env = append([]string{"PATH=" + searchPath, "HOME=" + temporary, "TMPDIR=" + temporary, guest.Env + "=1"}, p.Env...)
	cmd.WaitDelay = time.Second
	out := outputOf{p.Name, events}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Cancel = func() error {
		fmt.Fprintf(out, "timeout after %v; all processes:\n%s", p.Timeout, processes())
		return cmd.Process.Kill()
	}
	ran := make(chan error, 1)
	go func() { ran <- cmd.Run() }()
	select {
	case err := <-ran:
		if ctx.Err() != nil {
			return fmt.Errorf("timeout after %v", p.Timeout)
		}
		return err
	case <-time.After(p.Timeout + killTimeout):
		_ = os.WriteFile("/proc/sysrq-trigger", []byte("w"), 0) // shows tasks in uninterruptible sleep
		return errStuck
	}
}

// processes describes all processes: their state, what they wait for in the kernel, and their CPU
// time.
func processes() string {
	var text strings.Builder
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		arguments, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil || len(arguments) == 0 {
			continue // it has ended, or is a thread of the kernel
		}
		wchan, _ := os.ReadFile(filepath.Join(dir, "wchan"))
		fmt.Fprintf(&text, "%.120q wchan %s stat %s", bytes.ReplaceAll(arguments, []byte{0}, []byte(" ")), wchan, stat)
	}
	return text.String()
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
