package fleet

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"pinfold.dev/pinfold/cmd/internal/frame"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/internal/tabular"
	"pinfold.dev/pinfold/kube/metrics"
	"pinfold.dev/pinfold/kube/metrics/metricfile"
	"pinfold.dev/pinfold/report"
)

// open opens a file, which may be compressed.
func open(name string) (*os.File, *bufio.Reader, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, nil, err
	case !info.Mode().IsRegular(): // opening a named pipe would block until a writer opens it
		return nil, nil, fmt.Errorf("%s is not a regular file", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	in, _, err := tabular.Decompress(f, info.Size())
	if err != nil {
		_ = f.Close() // it was read only
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, in, nil
}

// isOfPrometheus reports whether one of the files is. Those that cannot be read are not.
func isOfPrometheus(files []string) bool {
	return slices.ContainsFunc(files, func(name string) bool {
		f, in, err := open(name)
		if err != nil {
			return false
		}
		defer f.Close()
		begin, _ := in.Peek(64) // less if the file is shorter
		return metricfile.Is(begin)
	})
}

// source returns what answers queries, and completes the options.
func (o *Options) source(ctx context.Context, options *metrics.Options, stderr io.Writer) (metrics.Server, error) {
	if o.files == nil {
		return o.connect(ctx)
	}
	names := metrics.Metrics()
	for _, other := range options.Names {
		names = append(names, other)
	}
	store := metricfile.New(names)
	progress := frame.NewProgress(stderr)
	defer progress.End()
	for _, name := range o.files {
		if err := readFile(ctx, name, store, progress); err != nil {
			return nil, err
		}
	}
	progress.End()
	options.Source = "the data"
	if !o.sinceGiven {
		options.Since = 0
	}
	var err error
	if *options, err = store.Options(*options); err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(o.files, ", "), err)
	}
	if missing := store.Missing(*options); len(missing) > 0 {
		frame.Notef(stderr, "the data has no %s: what follows from these is not known; '%s' asks for all", strings.Join(missing, ", "), metricfile.Query)
	}
	for _, w := range store.Warnings {
		frame.Notef(stderr, "warning of the server that answered: %s", report.Printable(w))
	}
	if store.Histograms > 0 {
		frame.Notef(stderr, "%s are left out: only a server can sum them, with --prometheus", quantity.Count(store.Histograms, "native histogram"))
	}
	if options.Since <= time.Hour+metrics.LongWindow {
		frame.Notef(stderr, "the data is of %v only: verdicts are about that time, and no change is sure; ask for two hours or more", options.Since)
	}
	if options.Step > metrics.LongWindow {
		frame.Notef(stderr, "samples are %v apart: high usage is an average over that time, and was higher in minutes", options.Step)
	}
	return store, nil
}

// readFile adds the series of a file to a store.
func readFile(ctx context.Context, name string, store *metricfile.Store, progress *frame.Progress) error {
	f, in, err := open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if begin, _ := in.Peek(64); !metricfile.Is(begin) {
		return frame.Usagef("%s is not of Prometheus, and other files are: give recordings alone", name)
	}
	drawn := readerFunc(func(b []byte) (int, error) {
		progress.Draw(func() string {
			at, _ := f.Seek(0, io.SeekCurrent) // for the user's eyes
			return fmt.Sprintf("%s: %d MB are read  %v  (ctrl-C ends)", name, at>>20, progress.Elapsed().Round(time.Second))
		})
		return in.Read(b)
	})
	err = store.Read(ctx, bufio.NewReaderSize(drawn, 64<<10))
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted")
	case err != nil:
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

type readerFunc func([]byte) (int, error)

func (r readerFunc) Read(b []byte) (int, error) { return r(b) }
