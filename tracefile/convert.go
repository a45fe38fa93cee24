package tracefile

import (
	"fmt"
	"io"
	"iter"
	"os"

	"pinfold.dev/pinfold/internal/atomicfile"
)

// Output specifies where and how a recording is written.
type Output struct {
	Name    string // its ending tells the format
	Replace bool   // a file of that name may be replaced
}

// Converted is the outcome of writing a recording.
type Converted struct {
	Rows int64
	Note string // what the format could not hold; "" for nothing
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
	if n, ok := w.(interface{ Note() string }); ok {
		c.Note = n.Note()
	}
	return c, nil
}

// Only returns the rows of one group.
func Only(group string, rows iter.Seq2[*Row, error]) iter.Seq2[*Row, error] {
	return func(yield func(*Row, error) bool) {
		for r, err := range rows {
			if (err != nil || r.Group == group) && !yield(r, err) {
				return
			}
		}
	}
}
