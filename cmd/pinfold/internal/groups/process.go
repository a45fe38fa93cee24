//go:build linux

package groups

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
	"pinfold.dev/pinfold/linux/confine"
)

// process is what /proc/PID/stat says of a process (proc_pid_stat(5)).
type process struct {
	name, state string
	kernel      bool   // one of the kernel's own threads
	started     string // distinguishes it from a later process with its number
}

// kernelThread is PF_KTHREAD of include/linux/sched.h.
const kernelThread = 1 << 21

// process reads what --pid names.
func (s *Options) process() (p process, err error) {
	name := filepath.Join(s.Root, "proc", strconv.Itoa(s.pid), "stat")
	text, err := os.ReadFile(name)
	if err != nil {
		return p, err
	}
	_, rest, _ := strings.Cut(string(text), "(")
	end := max(0, strings.LastIndex(rest, ")")) // a name may have brackets
	fields := strings.Fields(rest[end:])
	if len(fields) < 21 {
		return p, fmt.Errorf("%s has %q: is it the file of a kernel?", name, text)
	}
	flags, err := strconv.ParseUint(fields[7], 10, 64)
	return process{rest[:end], fields[1], flags&kernelThread != 0, fields[20]}, err
}

// OfPID returns the control group of the process --pid, "" without one.
func (s *Options) OfPID(fs *cgroup.FS) (string, error) {
	if s.pid == 0 {
		return "", nil
	}
	group, err := s.ofPID(fs)
	if err != nil {
		return "", fmt.Errorf("--pid %d: %w", s.pid, err)
	}
	return group, nil
}

func (s *Options) ofPID(fs *cgroup.FS) (group string, err error) {
	proc := filepath.Join(s.Root, "proc")
	if self, err := os.Readlink(filepath.Join(proc, "self")); err == nil && self != strconv.Itoa(os.Getpid()) {
		return "", fmt.Errorf("%s has the processes of another PID namespace: run this on the machine itself, or name the control group", proc)
	}
	s.measured, err = s.process()
	switch p := s.measured; {
	case cgroup.IsGone(err):
		return "", fmt.Errorf("%s has no such process: give the number that 'ps' shows here; it is another one inside of a container", proc)
	case err != nil:
		return "", err
	case p.state == "Z" || p.state == "X":
		return "", fmt.Errorf("%s has ended, and its parent has not noticed yet", p.name)
	case p.kernel:
		return "", fmt.Errorf("%s is a thread of the kernel, which limits do not concern: see 'pinfold why /'", p.name)
	}
	if group, err = cgrouptree.Of(fs, cgroup.CPU, s.pid); err != nil {
		return "", err
	}
	if fs.Hierarchy(cgroup.CPUAcct).Mount != "" { // version 1
		counted, err := cgrouptree.Of(fs, cgroup.CPUAcct, s.pid)
		if err == nil && counted != group {
			err = errCountedIn(s.pid, group, counted)
		}
		if err != nil {
			return "", err
		}
	}
	for above := group; above != "/"; above = path.Dir(above) {
		if confine.IsRun(above) {
			return above, nil // which has the limit, and not the group of its processes below
		}
	}
	if group == "/" {
		return "", fmt.Errorf("%s is in the root group, as all processes without one of their own: start it with 'pinfold run', or measure /", s.measured.name)
	}
	return group, nil
}

// NoteEnded says that the process --pid has ended meanwhile.
func (s *Options) NoteEnded(stderr io.Writer) {
	if s.pid == 0 {
		return
	}
	now, err := s.process()
	if errors.Is(err, os.ErrNotExist) || now.started != s.measured.started || now.state == "Z" {
		frame.Notef(stderr, "process %d (%s) has ended meanwhile: what else is in its control group was measured until the end", s.pid, s.measured.name)
	}
}
