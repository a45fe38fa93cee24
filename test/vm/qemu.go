package vm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"pinfold.dev/pinfold/test/vm/guest"
)

// Emulator is the program that emulates the machine.
const Emulator = "qemu-system-x86_64"

// KernelEnv is the environment variable with the path of the kernel.
const KernelEnv = "PINFOLD_TEST_KERNEL"

// Machine is a virtual machine that runs once.
type Machine struct {
	Shape
	Kernel   string // path of the kernel
	Init     string // path of the static binary of guest/init
	Binaries []string
	Programs []guest.Program
}

// consoleTail is how much of the kernel's console an error shows, in bytes.
const consoleTail = 4000

// Run boots the machine, waits until it has powered off, and returns the results of its programs. When
// the context ends, the machine is killed. Its files are written to dir. Errors contain the end of
// the kernel's console.
func (m Machine) Run(ctx context.Context, dir string) (map[string]guest.Ran, error) {
	initramfs := filepath.Join(dir, "initramfs.cpio")
	config := guest.Config{Offline: m.Offline, Programs: m.Programs}
	if err := writeInitramfs(initramfs, m.Init, m.Binaries, config); err != nil {
		return nil, fmt.Errorf("write the guest's root file system: %w", err)
	}
	console := filepath.Join(dir, "console")
	ran, err := m.boot(ctx, initramfs, console)
	if err != nil {
		text, _ := os.ReadFile(console)
		text = text[max(0, len(text)-consoleTail):]
		err = fmt.Errorf("%w\nthe guest's console ends with\n%s", err, bytes.ReplaceAll(text, []byte("\r"), nil))
	}
	return ran, err
}

// args returns the emulator's arguments.
//
// One thread of the host runs all CPUs in turn. With a thread per CPU, the emulator sometimes
// continues to run code that the kernel has patched, which causes "Oops: int3": in every third boot
// of 16 CPUs on a busy host (QEMU 7.2, Linux 7.2). On a host with two CPUs it is not faster either.
func (m Machine) args(initramfs, console string) []string {
	kernel := []string{"console=ttyS0", "quiet", "panic=-1", "no_timer_check", m.KernelArguments()}
	return append(m.Arguments(), "-cpu", "Icelake-Server", // has correct caches, unlike the models of AMD
		"-accel", "tcg,thread=single", // never KVM, which is often present but does not work
		"-nographic", "-nodefaults", "-no-reboot", "-monitor", "none",
		"-serial", "file:"+console, "-serial", "stdio",
		"-kernel", m.Kernel, "-initrd", initramfs, "-append", strings.TrimSpace(strings.Join(kernel, " ")))
}

func (m Machine) boot(ctx context.Context, initramfs, console string) (ran map[string]guest.Ran, err error) {
	// The kernel kills the emulator when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, Emulator, m.args(initramfs, console)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = 5 * time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ran, err = guest.ReadEvents(events)
	if err != nil && !errors.Is(err, os.ErrClosed) {
		// Give it time to end by itself, so that the error contains its own message.
		timer := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
	}
	if ended := cmd.Wait(); ended != nil || err != nil {
		err = errors.Join(err, ended, ctx.Err())
		return ran, fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return ran, nil
}
