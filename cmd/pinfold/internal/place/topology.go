// Package place implements the subcommands "topology" ([NewTopology]), which shows a machine, and
// "place" ([NewPlace]), which chooses CPUs on one.
package place

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/sysfs"
	"pinfold.dev/pinfold/report"
	"pinfold.dev/pinfold/report/terminal"
)

// NewTopology returns the subcommand "topology".
func NewTopology() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "topology [flags]\ntopology capture [flags]",
		Short: "Show a machine: packages, NUMA nodes, caches, cores, CPUs",
		Long: `Show a machine: its packages, NUMA nodes, last-level caches (LLCs), cores, CPUs.

As text it is a map with one character per CPU; the numbers before a row say
which CPUs these are. As JSON it is a machine file, which --machine reads.

What is wrong with the files of a /sys, and what is assumed instead, is told on
standard error.`,
		Example: `  pinfold topology
  pinfold topology -o json > machine.json
  pinfold topology --machine machine.json`,
		Args: frame.NoArguments,
	}
	from := newSourceOptions(cmd, sysfs.HostRoot)
	output := frame.OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := from.check(cmd.Flags()); err != nil {
			return err
		}
		m, err := from.read(cmd.InOrStdin(), cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		if *output == frame.JSON {
			return frame.PrintJSON(cmd.OutOrStdout(), m)
		}
		return report.MachineMap(cmd.OutOrStdout(), m, terminal.MapOptions(cmd.OutOrStdout(), os.Getenv))
	}
	cmd.AddCommand(newCapture())
	return cmd
}

func newCapture() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "capture [flags]",
		Short: "Write a machine's /sys topology as a text archive",
		Long: `Write what a machine's /sys says about its topology as a text archive, to look
at, to keep, or to attach to a report about a machine that is shown wrongly.

The archive contains only the files that pinfold reads, the date, and the
versions of kernel and pinfold; no host name, address or serial number. --sysfs
accepts it in place of a folder.`,
		Example: `  pinfold topology capture -o machine.txtar
  pinfold topology --sysfs machine.txtar
  pinfold place --sysfs machine.txtar --cpus 4`,
		Args: frame.NoArguments,
	}
	dir := cmd.Flags().String("sysfs", sysfs.HostRoot, "capture the tree in `DIR`: /sys or a copy of one")
	file := cmd.Flags().StringP("output", "o", "-", "write to `FILE`, which must not exist yet; - for standard output")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case *dir == "":
			return frame.Usagef("--sysfs is empty: name a folder such as /sys")
		case *file == "":
			return frame.Usagef("--output is empty: name a file, or - for standard output")
		}
		text, notes, invalid, err := capture(*dir, time.Now())
		if err != nil {
			return err
		}
		if invalid != nil {
			frame.Notef(cmd.ErrOrStderr(), "captured, but pinfold cannot make a machine of it: %v", invalid)
		}
		printNotes(cmd.ErrOrStderr(), notes)
		if *file == "-" {
			_, err := cmd.OutOrStdout().Write(text)
			return err
		}
		err = frame.WriteFile(*file, text, false)
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%w: choose another name, or remove it first", err)
		}
		return err
	}
	return cmd
}

// capture returns an archive of the tree in dir, what is wrong with its files, and in invalid why
// it does not describe a machine.
func capture(dir string, now time.Time) (text []byte, notes []string, invalid, err error) {
	root, err := openSysfsDir(dir)
	if err != nil {
		return nil, nil, nil, err
	}
	header, err := provenance(dir, now)
	if err != nil {
		return nil, nil, nil, err
	}
	if text, err = sysfs.Capture(root, header); err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", dir, err)
	}
	tree, err := sysfs.ParseArchive(text)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%s: check the archive: %w", dir, err)
	}
	_, notes, invalid = sysfs.Examine(tree, cpuset.Set{})
	return text, notes, invalid, nil
}

// provenance returns the header of an archive. The kernel is known only for the host's /sys.
func provenance(dir string, now time.Time) (string, error) {
	kernel := "unknown (a copy of a /sys)"
	if filepath.Clean(dir) == sysfs.HostRoot {
		var u unix.Utsname
		if err := unix.Uname(&u); err != nil {
			return "", fmt.Errorf("ask for the kernel's version: %w", err)
		}
		kernel = fmt.Sprintf("%s %s %s", unix.ByteSliceToString(u.Sysname[:]), unix.ByteSliceToString(u.Release[:]), unix.ByteSliceToString(u.Machine[:]))
	}
	b := frame.Version()
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
