package tracefile

import (
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Format is how a file holds a recording.
type Format int

// The formats that can be written. A journal is read, and written by a Recorder.
const (
	Parquet Format = iota + 1
	CSV
	NPY
)

// Stdout is the output name for CSV on standard output.
const Stdout = "-"

// FormatOf returns the format for the extension of an output's name, or a FormatError if the
// extension is unknown.
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
	return 0, &FormatError{name}
}

// newWriter returns a writer of a format. An .npy file needs a file that can be written
// at any place.
func newWriter(format Format, w *os.File, h Header) (writer, error) {
	switch format {
	case Parquet:
		return newParquetWriter(w, h), nil
	case NPY:
		return newNPYWriter(w, h)
	default:
		return newCSVWriter(w, h)
	}
}

// kinds of input, by what they begin with.
type kind int

const (
	kindCSV kind = iota
	kindParquet
	kindNPY
	kindJournal
)

// kindOf tells what a file holds by its first bytes, not by its name.
func kindOf(f io.ReaderAt) (kind, error) {
	head := make([]byte, 8)
	n, err := f.ReadAt(head, 0)
	if n == 0 && err == io.EOF {
		return 0, ErrEmpty
	}
	if err != nil && err != io.EOF {
		return 0, err
	}
	text := string(head[:n])
	switch {
	case strings.HasPrefix(text, "PAR1"):
		return kindParquet, nil
	case strings.HasPrefix(text, npyMagic):
		return kindNPY, nil
	case strings.HasPrefix(journalMagic, text), text == journalMagic:
		return kindJournal, nil
	}
	return kindCSV, nil
}
