// Command lock makes the lock file of package debian from a Debian mirror's list of packages:
//
//	/usr/lib/apt/apt-helper cat-file /var/lib/apt/lists/*_bookworm_main_binary-amd64_Packages* |
//		go run ./lab/debian/lock --snapshot=20260712T000000Z >lock.new
//	mv lock.new lab/debian/lock.txt
//
// The new file replaces the old one last, because the command itself contains the old one.
//
// Use the list that apt(8) has verified, as above, because the digests in the lock are those of the
// list. Use Debian's main archive: the version of a package there is kept, whereas a security
// update disappears when the next one is published. The snapshot is a time at which the archive had
// the packages, such as the day after the last point release.
//
// The lock contains the packages with the files that a program opens, and those with the shared
// libraries that these files need. A library is looked for in the packages on which the package of
// its user depends. Debian's own dependencies would name many more packages, for maintainer scripts
// and for libraries' optional features.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/pflag"

	"pinfold.dev/pinfold/lab/debian"
)

const header = `# The packages of each program: name, version, architecture, SHA-256, size in bytes, path on a mirror.
# Made by the command in lab/debian/lock, which describes how to make it anew. Do not edit.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "lock:", err)
		os.Exit(1)
	}
}

// run reads a list of packages from stdin and writes the lock to stdout.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	flags := pflag.NewFlagSet("lock", pflag.ContinueOnError)
	flags.SetOutput(stderr)
	snapshot := flags.String("snapshot", "", "time at which the archive had all packages, YYYYMMDDThhmmssZ")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if _, err := time.Parse("20060102T150405Z", *snapshot); err != nil {
		return fmt.Errorf("--snapshot=%s: want a time at which the archive had the packages, YYYYMMDDThhmmssZ", *snapshot)
	}
	index, err := parseIndex(stdin)
	if err != nil {
		return err
	}
	lock := debian.Lock{Snapshot: *snapshot}
	for _, g := range goals() {
		program, err := resolve(ctx, g, index, stderr)
		if err != nil {
			return fmt.Errorf("program %s: %w", g.name, err)
		}
		lock.Programs = append(lock.Programs, program)
	}
	_, err = io.WriteString(stdout, header+lock.String())
	return err
}
