package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/cmd/internal/version"
	"pinfold.dev/pinfold/linux/sysfs"
)

// hostSysfs is where a machine's own /sys is mounted.
const hostSysfs = "/sys"

func newCapture() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "capture [--sysfs DIR] [-o FILE]",
		Short: "Write a machine's /sys topology as a text archive",
		Long: `Write what a machine's /sys says about its topology as a text archive, to look
at, to keep, or to send with a report of a machine that is shown wrongly.

The archive has the files that pinfold reads and no others, and says which
kernel, date and pinfold it is from. It has no host name, address or serial
number. --sysfs reads it wherever a folder is read.`,
		Example: `  pinfold topology capture -o machine.txtar
  pinfold topology --sysfs machine.txtar
  pinfold place --sysfs machine.txtar --cpus 4`,
		Args:                  noArguments,
		DisableFlagsInUseLine: true,
	}
	dir := cmd.Flags().String("sysfs", hostSysfs, "capture the tree in `DIR`: /sys or a copy of one")
	file := cmd.Flags().StringP("output", "o", "-", "write to `FILE`, which must not exist yet; - for standard output")
	cmd.RunE = asked(func(cmd *cobra.Command, _ []string) error {
		switch {
		case *dir == "":
			return &wrongUsage{"--sysfs is empty: name a folder such as /sys"}
		case *file == "":
			return &wrongUsage{"--output is empty: name a file, or - for standard output"}
		}
		text, doubt, err := captureSysfs(*dir, time.Now())
		if err != nil {
			return err
		}
		if doubt != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "pinfold: captured, but pinfold cannot make a machine of it: %v\n", doubt)
		}
		if *file == "-" {
			_, err := cmd.OutOrStdout().Write(text)
			return err
		}
		return writeNew(*file, text)
	})
	return cmd
}

// captureSysfs returns an archive of the tree in a folder, and why it is none of
// a machine, if so.
func captureSysfs(dir string, now time.Time) (text []byte, doubt, err error) {
	root, err := openSysfsDir(dir)
	if err != nil {
		return nil, nil, err
	}
	header, err := provenance(dir, now)
	if err != nil {
		return nil, nil, err
	}
	if text, err = sysfs.Capture(root, header); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", dir, err)
	}
	tree, err := sysfs.ParseArchive(text)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: check the archive: %w", dir, err)
	}
	_, doubt = sysfs.Read(tree)
	return text, doubt, nil
}

// provenance is the header of an archive. The kernel is known of /sys only.
func provenance(dir string, now time.Time) (string, error) {
	kernel := "unknown (a copy of a /sys)"
	if filepath.Clean(dir) == hostSysfs {
		var u unix.Utsname
		if err := unix.Uname(&u); err != nil {
			return "", fmt.Errorf("ask for the kernel's version: %w", err)
		}
		kernel = fmt.Sprintf("%s %s %s", cString(u.Sysname[:]), cString(u.Release[:]), cString(u.Machine[:]))
	}
	b := version.This()
	by := "pinfold " + b.Version
	if b.Revision != "" && !strings.Contains(b.Version, b.Revision[:min(12, len(b.Revision))]) {
		by += " (" + b.Revision + ")"
	}
	return fmt.Sprintf(`CPU topology of a machine, from its /sys. 'pinfold topology --sysfs FILE' shows it.

kernel    %s
captured  %s
by        %s
`, kernel, now.UTC().Format(time.DateOnly), by), nil
}

func cString(b []byte) string {
	b, _, _ = bytes.Cut(b, []byte{0})
	return string(b)
}

// writeNew writes a file that does not exist yet.
func writeNew(name string, content []byte) error {
	err := writeWhole(name, content, false)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: choose another name, or remove it first", err)
	}
	return err
}
