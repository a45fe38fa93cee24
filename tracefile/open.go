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
	read map[string]*readGroup // so far
}

// readGroup is what was read of a group.
type readGroup struct {
	end                             time.Duration // of the last sample
	usage, throttledTime, burstTime time.Duration // sums
}

// add adds a valid sample. Sums that are too large are an error: those that come of
// them would overflow.
func (g *readGroup) add(r *Row) error {
	g.end = r.At
	g.usage += r.Usage
	g.throttledTime += r.ThrottledTime
	g.burstTime += r.BurstTime
	if max(g.usage, g.throttledTime, g.burstTime) > trace.MaxTime {
		return fmt.Errorf("group %s: the times of its samples add up to more than 100 years", r.Group)
	}
	return nil
}

// reader reads the rows of one recording; io.EOF after the last.
type reader interface {
	Header() Header
	Next() (*Row, error)
}

// Open opens a recording in any of the formats, or a journal, and detects the format from the
// content. npyInterval is the sample interval of .npy files and is ignored for others. The error is
// ErrEmpty if the file has no sample.
func Open(name string, npyInterval time.Duration) (*File, error) {
	f, err := openOrdinary(name)
	if err != nil {
		return nil, err
	}
	rows, err := newReader(f, npyInterval)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &File{name, f, rows, map[string]*readGroup{}}, nil
}

// openOrdinary opens a file that is neither a folder nor a stream. It looks first: to open a pipe
// waits for a writer, and nothing would interrupt that.
func openOrdinary(name string) (*os.File, error) {
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no ordinary file: give the name of one, to which a stream was saved before", name)
	}
	return os.Open(name) // which says why there is none
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

// Header returns the metadata of the recording.
func (f *File) Header() Header { return f.rows.Header() }

// Rows returns the rows. Those of one group are in the order of time and do not overlap. An error
// ends the sequence.
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
	g, ok := f.read[r.Group]
	if !ok {
		g = &readGroup{end: r.Begin()}
		f.read[r.Group] = g
	}
	if r.Begin() < g.end-f.Header().Interval/100 {
		return nil, fmt.Errorf("group %s: a sample begins %v before the end of the one before it: put the rows in order, and each recording in a file of its own",
			r.Group, g.end-r.Begin())
	}
	return r, g.add(r)
}

// Lost returns the number of bytes in the incomplete blocks at the end of a journal, after the rows
// have been read. It is 0 for other files.
func (f *File) Lost() int64 {
	if j, ok := f.rows.(*journalReader); ok {
		return j.Lost()
	}
	return 0
}

// Close closes the file.
func (f *File) Close() error { return f.f.Close() }

// Read reads a whole recording; see Open. lost is as in File.Lost.
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
