package tracefile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"pinfold.dev/pinfold/core/trace"
)

// Recorder writes a recording while it is made.
type Recorder interface {
	// Append adds a sample. After an error it accepts no more, but Finish writes the samples that
	// were added before.
	Append(r *Row) error
	// AppendSpan adds a span, as Append adds a sample.
	AppendSpan(s *trace.Span) error
	// Finish ends the recording. If it cannot write the output, the error is a KeptError with the
	// name of the file that has the samples.
	Finish() (Converted, error)
}

// JournalExistsError reports that a recording to the same file is in progress or was not finished.
type JournalExistsError struct{ Journal string }

func (e *JournalExistsError) Error() string {
	return fmt.Sprintf("%s exists: a recording to the same file is in progress or was not finished", e.Journal)
}

// KeptError reports that a recording could not be converted to its output and is still in its
// journal.
type KeptError struct {
	Journal string
	Err     error
}

func (e *KeptError) Error() string {
	return fmt.Sprintf("%v; the samples are kept in %s", e.Err, e.Journal)
}

func (e *KeptError) Unwrap() error { return e.Err }

// JournalOf returns the name of the journal of an output.
func JournalOf(output string) string { return output + ".journal" }

// Record starts a recording to a file, through a journal beside it. The error is a
// JournalExistsError if the journal already exists.
func Record(o Output, h Header) (Recorder, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	j, err := createJournal(JournalOf(o.Name), h)
	if err != nil {
		return nil, err
	}
	return &fileRecorder{o, journalRecorder{j}}, nil
}

type fileRecorder struct {
	output Output
	journalRecorder
}

func (r *fileRecorder) Finish() (Converted, error) {
	name := JournalOf(r.output.Name)
	lost := r.journal.Close() // even after an error the journal is converted
	if r.journal.rows == 0 {
		return Converted{}, errors.Join(lost, os.Remove(name))
	}
	c, err := Convert(name, r.output)
	if err != nil {
		return c, &KeptError{name, errors.Join(lost, err)}
	}
	if err := os.Remove(name); err != nil {
		return c, fmt.Errorf("%s is written, but its journal cannot be removed: %w", r.output.Name, err)
	}
	return c, lost
}

// Convert converts a recording from one file to another. For .npy files use Open and Write.
func Convert(from string, to Output) (Converted, error) {
	f, err := Open(from, 0)
	if err != nil {
		return Converted{}, err
	}
	defer f.Close()
	return WriteExact(to, f.Header(), f.Rows(), Spans(from))
}

// RecordJournal records to a stream as a journal, which Replay reads.
func RecordJournal(w io.Writer, h Header) (Recorder, error) {
	j, err := newJournal(stream{w}, h)
	if err != nil {
		return nil, err
	}
	return journalRecorder{j}, nil
}

type journalRecorder struct{ journal *journalWriter }

func (r journalRecorder) Append(row *Row) error { return r.journal.Write(row) }

func (r journalRecorder) AppendSpan(s *trace.Span) error { return r.journal.WriteSpan(s) }

func (r journalRecorder) Finish() (Converted, error) {
	err := r.journal.Close()
	return Converted{Rows: r.journal.rows}, err
}

// Replay reads a journal from a stream, and records it anew with the recorder that begin returns:
// each block as soon as it has arrived. What is torn at the end is dropped. Without samples and
// spans, it does not begin.
func Replay(in io.Reader, begin func(Header) (Recorder, error)) (c Converted, err error) {
	b := bufio.NewReaderSize(in, blockSize)
	if head, _ := b.Peek(len(journalMagic)); !strings.HasPrefix(journalMagic, string(head)) {
		return c, errors.New("the stream is not a journal")
	}
	j, err := newJournalReader(nil, b)
	if errors.Is(err, ErrEmpty) {
		return c, nil
	}
	if err != nil {
		return c, err
	}
	var r Recorder
	for err == nil {
		row, span, nextErr := j.next()
		if errors.Is(nextErr, io.EOF) {
			break
		}
		if err = nextErr; err == nil && r == nil {
			if r, err = begin(j.header); err != nil {
				return c, err
			}
		}
		switch {
		case span != nil:
			err = r.AppendSpan(span)
		case row != nil:
			err = r.Append(row)
		}
	}
	if r == nil {
		return c, err
	}
	c, finishErr := r.Finish()
	return c, errors.Join(err, finishErr)
}

// RecordCSV records to a stream as CSV. It needs no journal, because CSV is readable at any time.
// Rows are flushed once per second, by the time of the samples.
func RecordCSV(w io.Writer, h Header) (Recorder, error) {
	c, err := newCSVWriter(w, h)
	if err != nil {
		return nil, err
	}
	return &streamRecorder{w: c}, nil
}

type streamRecorder struct {
	w       *csvWriter
	rows    int64
	written time.Duration
}

func (s *streamRecorder) Append(r *Row) error {
	if err := s.w.Write(r); err != nil {
		return err
	}
	s.rows++
	if r.At < s.written+blockEvery {
		return nil
	}
	s.written = r.At
	return s.w.Close() // only flushes
}

func (s *streamRecorder) AppendSpan(*trace.Span) error {
	return errors.New("only Parquet files have a table of spans beside them")
}

func (s *streamRecorder) Finish() (Converted, error) { return Converted{Rows: s.rows}, s.w.Close() }
