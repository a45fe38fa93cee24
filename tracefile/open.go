package tracefile

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"pinfold.dev/pinfold/core/trace"
)

// File is an open trace file. Its rows can be read once.
type File struct {
	name string
	f    *os.File
	rows reader
	ends map[string]time.Duration // of each group's last sample
}

// reader reads the rows of one recording; io.EOF after the last.
type reader interface {
	Header() Header
	Next() (*Row, error)
}

// Open opens a recording in any of the formats, or a journal; what it is, is told by its
// content. An .npy file needs the length of its samples, which is not looked at for others.
// The error is ErrEmpty when the file holds no sample.
func Open(name string, npyInterval time.Duration) (*File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	rows, err := newReader(f, npyInterval)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &File{name, f, rows, map[string]time.Duration{}}, nil
}

func newReader(f *os.File, npyInterval time.Duration) (reader, error) {
	k, err := kindOf(f)
	if err != nil {
		return nil, err
	}
	switch k {
	case kindParquet:
		return newParquetReader(f)
	case kindNPY:
		base := filepath.Base(f.Name())
		return newNPYReader(f, "/"+strings.TrimSuffix(base, filepath.Ext(base)), npyInterval)
	case kindJournal:
		return newJournalReader(f)
	default:
		return newCSVReader(f)
	}
}

// Header returns what is known of the whole recording.
func (f *File) Header() Header { return f.rows.Header() }

// Rows reads the rows; those of one group come in the order of time, and do not overlap. An
// error is the last that comes.
func (f *File) Rows() iter.Seq2[*Row, error] {
	return func(yield func(*Row, error) bool) {
		for {
			r, err := f.next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(nil, fmt.Errorf("%s: %w", f.name, err))
				return
			}
			if !yield(r, nil) {
				return
			}
		}
	}
}

func (f *File) next() (*Row, error) {
	r, err := f.rows.Next()
	if err != nil {
		return nil, err
	}
	if end, ok := f.ends[r.Group]; ok && r.Begin() < end-f.Header().Interval/100 {
		return nil, fmt.Errorf("group %s: a sample begins %v before the end of the one before it: put the rows in order, and each recording in a file of its own",
			r.Group, end-r.Begin())
	}
	f.ends[r.Group] = r.At
	return r, nil
}

// Lost returns how many bytes at the end of a journal are not whole, and lost, once the rows
// have been read; 0 for other files.
func (f *File) Lost() int64 {
	if j, ok := f.rows.(*journalReader); ok {
		return j.Lost()
	}
	return 0
}

// Close closes the file.
func (f *File) Close() error { return f.f.Close() }

// Read reads a whole recording; see Open. Lost is as in File.Lost.
func Read(name string, npyInterval time.Duration) (rec *trace.Recording, lost int64, err error) {
	f, err := Open(name, npyInterval)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	rec, err = Gather(f.Header(), f.Rows())
	if err != nil {
		return nil, 0, err
	}
	if len(rec.Series) == 0 {
		return nil, 0, fmt.Errorf("%s: %w", name, ErrEmpty)
	}
	return rec, f.Lost(), nil
}
