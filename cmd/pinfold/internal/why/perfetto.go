//go:build linux

package why

import (
	"io"
	"os"
	"time"

	"pinfold.dev/pinfold/cmd/pinfold/internal/files"
	"pinfold.dev/pinfold/cmd/pinfold/internal/groups"
	"pinfold.dev/pinfold/cmd/pinfold/internal/remote"
	"pinfold.dev/pinfold/linux/schedtrace"
	"pinfold.dev/pinfold/report/perfetto"
)

// observed calls observe, and writes what it observes to the file for a trace viewer, if one was
// named.
func (o *options) observed(stdout io.Writer, request *schedtrace.Request, names *groups.Names, observe func() error) error {
	if o.perfetto.Name == "" {
		return observe()
	}
	write := func(f io.Writer) error {
		out := perfetto.New(f, perfetto.Clocks{Monotonic: schedtrace.Now(), Real: time.Now()})
		groups.Observe(request, names, out.Add)
		if err := observe(); err != nil {
			return err
		}
		return out.Close()
	}
	if !o.Remote {
		return files.WriteTo(o.perfetto, func(f *os.File) error { return write(f) })
	}
	err := write(remote.To(stdout, remote.File))
	if err == nil {
		_, err = remote.To(stdout, remote.Whole).Write(nil)
	}
	return err
}
