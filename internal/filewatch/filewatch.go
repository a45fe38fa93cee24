// Package filewatch reads configuration files again when they change. It compares their content,
// because the files of a Kubernetes volume are replaced as a whole, by changes of a symbolic link.
package filewatch

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"time"
)

// Every is how often a file is read. A change has effect after at most two of these intervals.
const Every = 5 * time.Second

// maxSize is the size of the largest file that is read: a ConfigMap or Secret has at most 1 MiB.
const maxSize = 1 << 20

// Read reads files, none of which may have more than 1 MiB, and returns one text, in which each but the
// last ends with a newline.
func Read(paths ...string) (all []byte, err error) {
	for _, path := range paths {
		text, err := read(path)
		if err != nil {
			return nil, err
		}
		if len(all) > 0 && !bytes.HasSuffix(all, []byte("\n")) {
			all = append(all, '\n')
		}
		all = append(all, text...)
	}
	return all, nil
}

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err == nil && len(text) > maxSize {
		err = fmt.Errorf("%s has more than %d bytes", path, maxSize)
	}
	return text, err
}

// File is a file that is watched, or several that are used together.
type File struct {
	Paths []string
	// Text is the content that is in use, as [Read] returns it.
	Text []byte
	// Use takes other content. If it returns an error, what was in use before is kept.
	Use func(text []byte) error
	// Report is told after each reading what is wrong with the file, or nil.
	Report func(error)
}

// Watch reads the file at an interval until the context ends, and calls Use for other content that
// two readings in a row have found: somebody may be writing the file.
func (f File) Watch(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	last := f.Text // as of the last reading
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		text, err := Read(f.Paths...)
		settled := err == nil && bytes.Equal(text, last)
		last = text
		switch {
		case err != nil || bytes.Equal(text, f.Text):
			f.Report(err)
		case settled:
			if err = f.Use(text); err == nil {
				f.Text = text
			}
			f.Report(err)
		}
	}
}
