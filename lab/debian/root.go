package debian

import (
	"path/filepath"
	"strings"
)

// Root is a program that is unpacked with everything that it needs to run.
type Root struct {
	Dir     string // absolute path of the directory that is / for the packages
	Program Program
}

// path returns the absolute path of a file of the root.
func (r Root) path(name string) string { return filepath.Join(r.Dir, name) }

// Command returns the command line that runs the program as an ordinary process of this machine, as
// any user and without chroot(2). The dynamic loader and the shared libraries are those of the
// root. The only exception are modules of the machine's name service (nsswitch.conf(5)), which the
// C library tries to load when a server that root started looks up the groups of its workers.
//
// The kernel names the process (/proc/PID/comm) after the loader, not after the program.
func (r Root) Command(args ...string) []string {
	var dirs []string
	for _, dir := range r.Program.Libraries {
		dirs = append(dirs, r.path(dir))
	}
	return append([]string{
		r.path("lib64/ld-linux-x86-64.so.2"),
		"--inhibit-cache", // of the machine's own libraries, /etc/ld.so.cache
		"--library-path", strings.Join(dirs, ":"),
		r.path(r.Program.Executable),
	}, args...)
}
