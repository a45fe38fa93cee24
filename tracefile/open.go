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
	"pinfold.dev/pinfold/internal/tabular"
)

// Errors that callers branch on, with errors.Is.
var (
	// ErrEmpty means that a file contains no samples.
	ErrEmpty = errors.New("contains no samples")
	// ErrNoInterval means that an .npy file was opened without a sample interval.
	ErrNoInterval = errors.New("an .npy file does not contain the sample interval")
)

// File is an open trace file. Its rows can be read once.
type File struct {
	name   string
	f      *os.File
	rows   reader
	groups map[string]*groupSums
}

// groupSums describes the rows of one group that were read so far.
type groupSums struct {
	end                                     time.Duration // of the last sample
	usage, throttledTime, burstTime, waited time.Duration
}

// add adds a valid sample. It returns an error if the sums become so large that computations with
// them could overflow.
func (g *groupSums) add(r *Row) error {
	g.end = r.At
	g.usage += r.Usage
	g.throttledTime += r.ThrottledTime
	g.burstTime += r.BurstTime
	g.waited += r.Waited
	if max(g.usage, g.throttledTime, g.burstTime, g.waited) > trace.MaxTime {
		return fmt.Errorf("group %s: the times of its samples add up to more than 100 years", r.Group)
	}
	return nil
}

// reader reads the rows of one recording. Next returns io.EOF after the last. Resolution is the
// unit of the times that were read so far, or 0.
type reader interface {
	Header() Header
	Resolution() time.Duration
	Next() (*Row, error)
}

// Open opens a recording in any of the formats, or a journal, and detects the format from the
// content. npyInterval is the sample interval of .npy files and is ignored for others. The error is
// ErrEmpty if the file has no sample.
func Open(name string, npyInterval time.Duration) (*File, error) {
	// Opening a named pipe would block until a writer opens it.
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file: save the recording to a file and give its name", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	rows, err := newReader(f, npyInterval)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &File{name, f, rows, map[string]*groupSums{}}, nil
}

// newReader returns a reader for the format that the first bytes of the file indicate.
func newReader(f *os.File, npyInterval time.Duration) (reader, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	in, compressed, err := tabular.Decompress(f, info.Size())
	if err != nil {
		return nil, err
	}
	head, err := in.Peek(len(journalMagic))
	if len(head) == 0 && errors.Is(err, io.EOF) {
		return nil, ErrEmpty
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	text := string(head)
	isParquet, isJournal := strings.HasPrefix(text, "PAR1"), strings.HasPrefix(journalMagic, text) // or cut short
	switch {
	case compressed && (isParquet || isJournal):
		return nil, errors.New("it is a compressed Parquet file or journal: decompress it, with 'gunzip' for example")
	case isParquet:
		return newParquetReader(f)
	case isJournal:
		return newJournalReader(f, in)
	case strings.HasPrefix(text, npyMagic):
		base := filepath.Base(f.Name())
		return newNPYReader(in, "/"+strings.TrimSuffix(strings.TrimSuffix(base, filepath.Ext(base)), ".npy"), npyInterval)
	case isJSON(head):
		return nil, errJSON(in)
	default:
		if begin, _ := in.Peek(1024); isExposition(string(begin)) { // less if the file is shorter
			return nil, errExposition
		}
		return newCSVReader(in)
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
	g, ok := f.groups[r.Group]
	if !ok {
		g = &groupSums{end: r.Begin()}
		f.groups[r.Group] = g
	}
	// Other programs round times, to seconds even, and so samples seem to overlap.
	if early, unit := g.end-r.Begin(), f.rows.Resolution(); early > 0 && unit > time.Second {
		return nil, fmt.Errorf("group %s: the times are in steps of %v, in which there are several samples: save them with more digits", r.Group, unit)
	} else if early > 0 && early < unit {
		r.At += early
	}
	if r.Begin() < g.end-f.Header().Interval/100 {
		return nil, fmt.Errorf("group %s: a sample begins %v before the end of the previous one: sort the rows by time, and keep each recording in its own file",
			r.Group, g.end-r.Begin())
	}
	return r, g.add(r)
}

// Lost returns the number of bytes in the incomplete blocks at the end of a journal, after the rows
// have been read. It is 0 for other files.
func (f *File) Lost() int64 {
	if j, ok := f.rows.(*journalReader); ok {
		return j.lost
	}
	return 0
}

// Close closes the file.
func (f *File) Close() error { return f.f.Close() }
