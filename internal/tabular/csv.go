// Package tabular reads tables as other programs write them: CSV with any of the usual separators,
// also compressed, and the times and numbers in it.
//
//	content, _, err := tabular.Decompress(file, size)
//	table, err := tabular.NewReader(content, "time", "usage_ns")    // these columns are required
//	for texts, err := table.Read(); err == nil; texts, err = table.Read() {
//		ns, resolution, err := tabular.ParseTime(texts[slices.Index(table.Names, "time")])
//	}
//
// Its errors are for users: they say what is wrong and what is wanted.
package tabular

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// maxHeader is the longest first line whose separator is recognised, in bytes.
const maxHeader = 64 << 10

// Reader reads CSV (RFC 4180) line by line. Commas, semicolons, tabs or bars separate the fields,
// whichever is most frequent in the first line. Lines without any value, with which spreadsheets
// end, are skipped.
type Reader struct {
	Names []string // of the columns, from the first line

	r *csv.Reader
}

// NewReader reads the first line, in which the required columns must be. The error is io.EOF if
// there is no content.
func NewReader(in io.Reader, required ...string) (*Reader, error) {
	b := bufio.NewReaderSize(in, maxHeader)
	head, err := b.Peek(1)
	for err == nil && len(head) < maxHeader && !bytes.ContainsRune(head, '\n') { // no more, as a stream may pause
		_, err = b.Peek(len(head) + 1)
		head, _ = b.Peek(b.Buffered())
	}
	if len(head) == 0 {
		return nil, err
	}
	if bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")) {
		return nil, errors.New("the text is UTF-16: convert it with 'iconv -f UTF-16 -t UTF-8', or save it as CSV UTF-8")
	}
	if mark := []byte("\ufeff"); bytes.HasPrefix(head, mark) { // with which spreadsheets begin their files
		head = head[len(mark):]
		_, _ = b.Discard(len(mark))
	}
	t := &Reader{r: csv.NewReader(b)}
	t.r.ReuseRecord = true
	t.r.Comma = separator(head)
	names, err := t.r.Read()
	if err != nil {
		return nil, t.explain(names, err)
	}
	for _, name := range names {
		t.Names = append(t.Names, strings.TrimSpace(name))
	}
	return t, t.check(required)
}

// NoColumnError reports a required column that the first line does not name.
type NoColumnError struct{ Name string }

func (e *NoColumnError) Error() string { return fmt.Sprintf("no column %q in the first line", e.Name) }

// separator returns the most frequent separator of the first line.
func separator(head []byte) rune {
	line, _, _ := bytes.Cut(head, []byte("\n"))
	best := ','
	for _, c := range ";\t|" {
		if bytes.Count(line, []byte(string(c))) > bytes.Count(line, []byte(string(best))) {
			best = c
		}
	}
	return best
}

func (t *Reader) check(required []string) error {
	for _, name := range required {
		switch n := len(t.Names) - len(slices.DeleteFunc(slices.Clone(t.Names), func(s string) bool { return s == name })); {
		case n == 0:
			return &NoColumnError{name}
		case n > 1:
			return fmt.Errorf("column %q appears twice", name)
		}
	}
	return nil
}

// Read returns the fields of the next line with a value, which are valid until the next call. The
// error is io.EOF at the end.
func (t *Reader) Read() ([]string, error) {
	for {
		texts, err := t.r.Read()
		if err != nil {
			return nil, t.explain(texts, err)
		}
		if slices.ContainsFunc(texts, func(s string) bool { return s != "" }) {
			return texts, nil
		}
	}
}

// Line returns the number of the line, from 1, in which field i of the last line begins.
func (t *Reader) Line(i int) int {
	line, _ := t.r.FieldPos(i)
	return line
}

// explain words an error of encoding/csv. texts are the fields of the line.
func (t *Reader) explain(texts []string, err error) error {
	var parse *csv.ParseError
	switch {
	case !errors.As(err, &parse):
		return err
	case errors.Is(err, csv.ErrFieldCount):
		return fmt.Errorf("line %d has %d fields, and the first line has %d (separated by %q): was the file cut short?",
			parse.StartLine, len(texts), len(t.Names), t.r.Comma)
	default:
		return fmt.Errorf("line %d: a quotation mark is not closed, or not doubled within a field", parse.StartLine)
	}
}
