package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/test/vm/guest"
)

// newRoot is where the system's root is mounted before it becomes the root.
const newRoot = "/newroot"

// hostname is the machine's name. Kubernetes does not accept the kernel's default, "(none)".
const hostname = "guest"

// switchRoot makes the system's root, below an overlay in memory, the root of the machine, and
// copies the configuration and this program there.
func switchRoot(system *guest.System, config []byte) error {
	for _, dir := range []string{"/lower", "/memory", newRoot} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := mountHost(system.Root, "/lower"); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", "/memory", "tmpfs", 0, "size=80%"); err != nil {
		return fmt.Errorf("mount memory: %w", err)
	}
	if err := errors.Join(os.Mkdir("/memory/upper", 0o755), os.Mkdir("/memory/work", 0o755)); err != nil {
		return err
	}
	if err := unix.Mount("overlay", newRoot, "overlay", 0, "lowerdir=/lower,upperdir=/memory/upper,workdir=/memory/work,xino=off"); err != nil {
		return fmt.Errorf("mount an overlay: %w", err)
	}
	self, err := os.ReadFile("/init")
	if err != nil {
		return err
	}
	files := map[string][]byte{
		"init":               self,
		guest.ConfigFile[1:]: config,
		"etc/fstab":          nil,
		"etc/hostname":       []byte(hostname + "\n"),
		"etc/hosts":          []byte("127.0.0.1 localhost " + hostname + "\n"),
		"etc/machine-id":     []byte(strings.Repeat("0123456789abcdef", 2) + "\n"),
		"etc/resolv.conf":    []byte("nameserver 127.0.0.1\n"),
	}
	for name, content := range files {
		path := filepath.Join(newRoot, name)
		_ = os.Remove(path) // it may be a link to somewhere else
		if err := os.WriteFile(path, content, 0o755); err != nil {
			return err
		}
	}
	if err := os.Chdir(newRoot); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the root: %w", err)
	}
	return errors.Join(unix.Chroot("."), os.Chdir("/"))
}

// mountHost mounts a directory of the host.
func mountHost(dir, at string) error {
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("none", at, "hostfs", unix.MS_RDONLY, dir); err != nil {
		return fmt.Errorf("mount the host's %s at %s: %w", dir, at, err)
	}
	return nil
}

// mountShares mounts what programs need in the new root.
func mountShares(system *guest.System) error {
	for _, at := range slices.Sorted(maps.Keys(system.Shares)) {
		if err := mountHost(system.Shares[at], at); err != nil {
			return err
		}
	}
	return mount("tmpfs", guest.DataDir, "size=70%")
}

func mount(kind, at, options string) error {
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(kind, at, kind, 0, options); err != nil && !errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("mount %s at %s: %w: the kernel may lack it", kind, at, err)
	}
	return nil
}

// service is the unit in which systemd runs the programs.
const service = `[Unit]
Description=Programs of a test
Requires=basic.target dbus.service
After=basic.target dbus.service

[Service]
Type=oneshot
ExecStart=/init run
StandardOutput=tty
StandardError=tty
TTYPath=/dev/console
TimeoutStartSec=infinity
LimitNOFILE=524288
`

// masked are units of Debian that a test does not need, and that take time or fail in the machine.
var masked = []string{
	"getty.target", "timers.target", "remote-fs.target", "systemd-logind.service", "systemd-networkd.service", "systemd-remount-fs.service",
	"systemd-resolved.service", "systemd-timesyncd.service", "systemd-tpm2-setup.service", "systemd-tpm2-setup-early.service",
	"systemd-udev-settle.service",
}

// startSystemd replaces this process by systemd. It returns only after an error.
func startSystemd() error {
	const units = "/etc/systemd/system/"
	if err := os.WriteFile(units+"programs.service", []byte(service), 0o644); err != nil {
		return err
	}
	for _, unit := range masked {
		_ = os.Remove(units + unit)
		if err := os.Symlink("/dev/null", units+unit); err != nil {
			return err
		}
	}
	_ = os.Remove(units + "default.target")
	if err := os.Symlink(units+"programs.service", units+"default.target"); err != nil {
		return err
	}
	const path = "/sbin/init"
	return fmt.Errorf("start %s: %w", path, unix.Exec(path, []string{path, "--unit=programs.service"}, []string{"PATH=" + searchPath, "TERM=dumb"}))
}

// mountSystem mounts what systemd otherwise would, and creates the group of the programs: the first
// process stays in the root group, as on other machines.
func mountSystem() error {
	for _, m := range []struct{ kind, at, options string }{
		{"devpts", "/dev/pts", ""}, {"tmpfs", "/dev/shm", ""}, {"mqueue", "/dev/mqueue", ""}, {"tmpfs", "/run", ""}, {"tmpfs", "/tmp", ""},
		{"cgroup2", "/sys/fs/cgroup", "nsdelegate,memory_recursiveprot"},
	} {
		if err := mount(m.kind, m.at, m.options); err != nil {
			return err
		}
	}
	if err := unix.Mount("", "/", "", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("share the mounts: %w", err)
	}
	for link, to := range map[string]string{"fd": "fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"} {
		_ = os.Symlink("/proc/self/"+to, "/dev/"+link)
	}
	controllers, err := os.ReadFile("/sys/fs/cgroup/cgroup.controllers")
	if err != nil {
		return err
	}
	for controller := range strings.FieldsSeq(string(controllers)) {
		if err := os.WriteFile("/sys/fs/cgroup/cgroup.subtree_control", []byte("+"+controller), 0); err != nil {
			return err
		}
	}
	return os.Mkdir(programsGroup, 0o755)
}

const programsGroup = "/sys/fs/cgroup/programs"

// runAsChild runs the programs in another process, and waits for it and for all processes whose
// parents have ended.
func runAsChild() error {
	group, err := unix.Open(programsGroup, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	child, err := os.StartProcess("/init", []string{"/init", "run"}, &os.ProcAttr{
		Files: []*os.File{nil, os.Stdout, os.Stderr},
		Env:   []string{"PATH=" + searchPath},
		Sys:   &unix.SysProcAttr{Setsid: true, UseCgroupFD: true, CgroupFD: group},
	})
	if err != nil {
		return err
	}
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		case pid == child.Pid:
			return fmt.Errorf("the programs' process ended with status %#x", status) // it powers off itself
		}
	}
}

// setUpLoopback sets the loopback interface up.
func setUpLoopback() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request)
}
