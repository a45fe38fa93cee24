package debian

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// aptTimeout is the maximum time for the download of all packages.
const aptTimeout = 30 * time.Minute

// aptCommand is the name of the program that [apt] runs.
const aptCommand = "apt-get"

// apt is the machine's own package manager, which knows the mirrors and proxies of the machine. It
// only downloads: "apt-get download" installs nothing and changes no state.
type apt struct {
	temporary string // directory
}

// String returns the name of the program.
func (apt) String() string { return aptCommand }

// fetch implements [source]. apt-get downloads nothing if it does not know one of the versions.
func (a apt) fetch(ctx context.Context, packages []Package, add func(Package, io.Reader) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, aptTimeout, errSlow)
	defer cancel()
	dir, err := os.MkdirTemp(a.temporary, "apt-")
	if err != nil {
		return err
	}
	err = runApt(ctx, dir, packages)
	if err == nil {
		err = addFiles(packages, dir, add)
	}
	return errors.Join(err, os.RemoveAll(dir))
}

// addFiles adds the files that apt-get downloaded.
func addFiles(packages []Package, dir string, add func(Package, io.Reader) error) error {
	for _, p := range packages {
		if err := addFile(p, dir, add); err != nil {
			return fmt.Errorf("%s: %w", p.file(), err)
		}
	}
	return nil
}

func addFile(p Package, dir string, add func(Package, io.Reader) error) error {
	file, err := os.Open(filepath.Join(dir, aptFile(p)))
	if err != nil {
		return err
	}
	defer file.Close()
	return add(p, file)
}

// aptFile returns the name that apt-get gives to the file of a package. Unlike the name on a
// mirror, it contains the epoch of the version.
func aptFile(p Package) string {
	return p.Name + "_" + strings.ReplaceAll(p.Version, ":", "%3a") + "_" + p.Architecture + ".deb"
}

// runApt runs apt-get download in a directory.
func runApt(ctx context.Context, dir string, packages []Package) error {
	args := []string{"--quiet=2", "download"}
	for _, p := range packages {
		args = append(args, p.Name+":"+p.Architecture+"="+p.Version)
	}
	command := exec.CommandContext(ctx, aptCommand, args...)
	command.Dir, command.WaitDelay = dir, time.Second
	command.Env = append(os.Environ(), "LC_ALL=C")
	var messages bytes.Buffer
	command.Stdout, command.Stderr = &messages, &messages
	if err := command.Run(); err != nil {
		return fmt.Errorf("%w: %s", causeOf(ctx, err), firstError(messages.String()))
	}
	return nil
}

// firstError returns the first error of apt-get's messages, or the first message.
func firstError(messages string) string {
	for line := range strings.Lines(messages) {
		if text, ok := strings.CutPrefix(line, "E: "); ok {
			return strings.TrimSpace(text)
		}
	}
	first, _, _ := strings.Cut(messages, "\n")
	return first
}
