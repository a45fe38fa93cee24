package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/internal/filewatch"
	"pinfold.dev/pinfold/kube/api"
)

// file is a configuration file that is read again when it changes.
type file struct {
	name string // for messages
	filewatch.File
	// use takes other content. If it returns an error, it has changed nothing.
	use func(c *control.Control, text []byte) error
}

// ReadCeilings reads the file of ceilings that is the value of a flag; "" is for none. The agent reads
// it again when it changes. It must not start with one that it cannot use: pods would get more than
// the administrator allows.
func (o *Options) ReadCeilings(flag, path string) error {
	if path == "" {
		return nil
	}
	text, err := filewatch.Read(path)
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	if o.Ceilings, err = parseCeilings(text); err != nil {
		return fmt.Errorf("%s %s: %w", flag, path, err)
	}
	o.files = append(o.files, file{flag + " " + path, filewatch.File{Paths: []string{path}, Text: text}, func(c *control.Control, text []byte) error {
		ceilings, err := parseCeilings(text)
		if err == nil {
			c.SetCeilings(ceilings)
		}
		return err
	}})
	return nil
}

func parseCeilings(text []byte) (ceilings api.Ceilings, err error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return ceilings, errors.New("the file is empty: write {} to have only the built-in ceilings")
	}
	return api.ParseCeilings(text)
}

// watchFiles reads the configuration files again until the context ends. A file that cannot be used
// makes the node's condition False.
func watchFiles(ctx context.Context, e *engine) {
	var all sync.WaitGroup
	for _, f := range e.files {
		f.Use = func(text []byte) (err error) {
			e.update(func() { err = f.use(e.control, text) })
			if err == nil {
				e.Log.Info("a configuration file has changed and is in use", "file", f.name)
				e.requestRound()
			}
			return err
		}
		f.Report = func(err error) {
			e.reports.dedup.WarnOrClear(f.name, "a configuration file cannot be used; what it said before counts", err)
			e.with(func(c *control.Control) {
				if c.SetRefused(f.name, err) {
					e.requestRound()
				}
			})
		}
		all.Go(func() { f.Watch(ctx, e.FilesEvery) })
	}
	all.Wait()
}
