package place

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/linux/sysfs"
)

// sourceOptions are where a machine is read from.
type sourceOptions struct {
	sysfs, machine string
}

func newSourceOptions(cmd *cobra.Command, sysfsDefault string) *sourceOptions {
	s := &sourceOptions{}
	cmd.Flags().StringVar(&s.sysfs, "sysfs", sysfsDefault, "read the machine from `PATH`: /sys, a copy of one or a captured one")
	cmd.Flags().StringVar(&s.machine, "machine", "", "read the machine from the JSON `FILE`, - for standard input")
	frame.CompleteExtensions(cmd, "machine", "json")
	return s
}

// check rejects contradictory and empty flags. An empty value, such as that of an unset shell
// variable, must not select another machine.
func (s *sourceOptions) check(flags *pflag.FlagSet) error {
	machine, sysfs := flags.Changed("machine"), flags.Changed("sysfs")
	switch {
	case machine && sysfs:
		return frame.Usagef("--machine and --sysfs both name a machine: give one of them")
	case machine && s.machine == "":
		return frame.Usagef("--machine is empty: name a file, or - for standard input")
	case sysfs && s.sysfs == "":
		return frame.Usagef("--sysfs is empty: name a folder such as /sys")
	case s.machine == "" && s.sysfs == "":
		return frame.Usagef("no machine given: use --sysfs /sys for this machine, or --machine FILE")
	}
	return nil
}

// read reads the machine. What is wrong with its /sys is told on stderr.
func (s *sourceOptions) read(stdin io.Reader, stderr io.Writer) (*topology.Machine, error) {
	switch s.machine {
	case "":
		m, notes, err := readSysfs(s.sysfs)
		printNotes(stderr, notes)
		return m, err
	case "-":
		m, err := topology.Decode(stdin)
		if err != nil {
			return nil, fmt.Errorf("standard input: %w", err)
		}
		return m, nil
	default:
		return readMachineFile(s.machine)
	}
}

func printNotes(stderr io.Writer, notes []string) {
	for _, note := range notes {
		frame.Notef(stderr, "note: %s", note)
	}
}

// readSysfs reads a machine from a folder, or from an archive of one.
func readSysfs(path string) (m *topology.Machine, notes []string, err error) {
	root, err := openSysfs(path)
	if err != nil {
		return nil, nil, err
	}
	if filepath.Clean(path) == sysfs.HostRoot {
		m, notes, err = sysfs.Host(cpuset.Set{})
	} else {
		m, notes, err = sysfs.Examine(root, cpuset.Set{})
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the machine from %s: %w", path, err)
	}
	return m, notes, nil
}

func openSysfs(path string) (fs.FS, error) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return openSysfsDir(path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	tree, err := sysfs.ParseArchive(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: make one with 'pinfold topology capture'", path, err)
	}
	return tree, nil
}

func openSysfsDir(dir string) (fs.FS, error) {
	root := os.DirFS(dir)
	if _, err := fs.Stat(root, "devices/system/cpu"); err != nil {
		return nil, fmt.Errorf("%s: %w: give --sysfs the folder that holds devices/system/cpu", dir, err)
	}
	return root, nil
}

func readMachineFile(path string) (*topology.Machine, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: make a machine file with 'pinfold topology -o json'", err)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := topology.Decode(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}
