//go:build linux

package why

import (
	"os"
	"time"

	"pinfold.dev/pinfold/cmd/pinfold/internal/files"
	"pinfold.dev/pinfold/cmd/pinfold/internal/groups"
	"pinfold.dev/pinfold/linux/schedtrace"
	"pinfold.dev/pinfold/report/perfetto"
)

// observed calls observe, and writes what it observes to the file for a trace viewer, if one was
// named.
func (o *options) observed(request *schedtrace.Request, names *groups.Names, observe func() error) error {
	if o.perfetto.Name == "" {
		return observe()
	}
	return files.WriteTo(o.perfetto, func(f *os.File) error {
		out := perfetto.New(f, perfetto.Clocks{Monotonic: schedtrace.Now(), Real: time.Now()})
		groups.Observe(request, names, out.Add)
		if err := observe(); err != nil {
			return err
		}
		return out.Close()
	})
}
