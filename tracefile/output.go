package tracefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"pinfold.dev/pinfold/internal/atomicfile"
)

// Format is a file format that can be written. Journals are written by a Recorder only.
type Format int

// The formats.
const (
	Parquet Format = iota + 1
	CSV
	NPY
)

// Stdout is the output name for CSV on standard output.
const Stdout = "-"

// FormatOf returns the format for the extension of an output's name.
func FormatOf(name string) (Format, error) {
	if name == Stdout {
		return CSV, nil
	}
	switch strings.ToLower(filepath.Ext(name)) {
	case ".parquet":
		return Parquet, nil
	case ".csv":
		return CSV, nil
	case ".npy":
		return NPY, nil
	}
	return 0, fmt.Errorf("%s: unknown format: use a name that ends in .parquet, .csv or .npy, or - for CSV on standard output", name)
}

// Output specifies where and how a recording is written.
type Output struct {
	Name    string // its extension selects the format
	Replace bool   // whether an existing file may be replaced
}

// Taken returns an error if the name of an output is taken and may not be replaced.
func Taken(name string, replace bool) error {
	if name == Stdout || replace {
		return nil
	}
	if _, err := os.Lstat(name); err == nil {
		return fmt.Errorf("%s: %w", name, fs.ErrExist)
	}
	return nil
}

// Check returns an error if an output cannot be written: its format is unknown, or its name or that
// of the table beside it is taken. Only a table of spans may be replaced by another.
func (o Output) Check() error {
	format, err := FormatOf(o.Name)
	if err == nil {
		err = Taken(o.Name, o.Replace)
	}
	if err != nil || format != Parquet {
		return err
	}
	name := SpansOf(o.Name)
	if err := Taken(name, o.Replace); err != nil {
		return err
	}
	f, _, err := openTable(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w; it would be replaced, and is not a table of spans: choose another name, or move it", err)
	}
	return f.Close()
}

// Converted is the outcome of writing a recording.
type Converted struct {
	Rows  int64
	Spans int64
	Note  string // what the format cannot represent, "" if nothing was lost
}

// writer writes the rows of one recording. Close writes what is buffered and leaves the file open.
type writer interface {
	Write(r *Row) error
	Close() error
}

func newWriter(format Format, f *os.File, h Header) (writer, error) {
	switch format {
	case Parquet:
		return newParquetWriter(f, h), nil
	case NPY:
		return newNPYWriter(f, h)
	default:
		return newCSVWriter(f, h)
	}
}

// Write writes rows to a file, which appears whole or not at all. If there are no rows, it writes
// no file and returns ErrEmpty. Its memory use does not depend on the number of rows.
func Write(o Output, h Header, rows iter.Seq2[*Row, error]) (Converted, error) {
	format, err := FormatOf(o.Name)
	if err != nil {
		return Converted{}, err
	}
	var c Converted
	err = atomicfile.WriteFunc(o.Name, atomicfile.Options{KeepOld: !o.Replace, Sync: true}, func(f *os.File) error {
		w, err := newWriter(format, f, h)
		if err != nil {
			return err
		}
		c, err = writeRows(w, rows)
		return err
	})
	if err != nil {
		return Converted{}, fmt.Errorf("write %s: %w", o.Name, err)
	}
	return c, nil
}

// WriteCSV writes rows as CSV to a stream.
func WriteCSV(out io.Writer, h Header, rows iter.Seq2[*Row, error]) (Converted, error) {
	w, err := newCSVWriter(out, h)
	if err != nil {
		return Converted{}, err
	}
	return writeRows(w, rows)
}

func writeRows(w writer, rows iter.Seq2[*Row, error]) (Converted, error) {
	var c Converted
	for r, err := range rows {
		if err != nil {
			return c, err
		}
		if err := w.Write(r); err != nil {
			return c, err
		}
		c.Rows++
	}
	if c.Rows == 0 {
		return c, ErrEmpty
	}
	if err := w.Close(); err != nil {
		return c, err
	}
	if n, ok := w.(*npyWriter); ok {
		c.Note = n.note()
	}
	return c, nil
}
