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

// Emulator is the program that is the machine.
const Emulator = "qemu-system-x86_64"

// KernelEnv names the environment variable with the file of the kernel.
const KernelEnv = "PINFOLD_TEST_KERNEL"

// Machine is a virtual machine to be run once.
type Machine struct {
	Shape
	Kernel   string // file
	Init     string // static binary of guest/init
	Binaries []string
	Programs []guest.Program
}

// consoleTail is how much of the kernel's console an error shows.
const consoleTail = 4000

// Run boots the machine and returns what its programs did when it has powered off.
// It is killed when the context ends. dir is for its files. The error has the
// end of the kernel's console.
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

// args are the emulator's.
//
// One thread of the host runs all CPUs in turn. With one each, the emulator goes on
// for too long with code that the kernel has changed meanwhile: a breakpoint that
// nobody owns ("Oops: int3"), seen in every third boot of 16 CPUs on a busy host
// (QEMU 7.2, Linux 7.2); and on two CPUs of the host that is no faster.
func (m Machine) args(initramfs, console string) []string {
	kernel := []string{"console=ttyS0", "quiet", "panic=-1", "no_timer_check", m.KernelArguments()}
	return append(m.Arguments(), "-cpu", "Icelake-Server", // right caches, which AMD's models have not
		"-accel", "tcg,thread=single", // never KVM: it is often there and does not work
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
	says, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ran, err = guest.ReadEvents(says)
	if err != nil && !errors.Is(err, os.ErrClosed) {
		// Let it end by itself if it will, so that its own reason is heard.
		timer := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
	}
	if ended := cmd.Wait(); ended != nil || err != nil {
		err = errors.Join(err, ended, ctx.Err())
		return ran, fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return ran, nil
}
