package metricfile

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	jsoniter "github.com/json-iterator/go"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// Is reports whether a file that begins like this is of a kind that [Store.Read] reads, or at least
// JSON, or a page that a server gave in place of an answer.
func Is(begin []byte) bool {
	begin = trim(begin)
	return len(begin) > 0 && (begin[0] == '{' || begin[0] == '[' || begin[0] == '<')
}

func trim(begin []byte) []byte {
	return bytes.TrimLeft(bytes.TrimPrefix(begin, []byte("\ufeff")), " \t\r\n")
}

// isDump reports whether a file begins as those of "promtool tsdb dump".
func isDump(begin []byte) bool {
	begin = trim(begin)
	return len(begin) > 1 && begin[0] == '{' && (begin[1] == '_' || 'a' <= begin[1] && begin[1] <= 'z' || 'A' <= begin[1] && begin[1] <= 'Z')
}

// Read adds the series of a file. Those that were read before an error stay.
func (s *Store) Read(ctx context.Context, in *bufio.Reader) error {
	begin, _ := in.Peek(1024) // an error appears again
	if bytes.HasPrefix(begin, []byte("\ufeff")) {
		_, _ = in.Discard(len("\ufeff")) // it is there
	}
	switch begin = trim(begin); {
	case len(begin) > 0 && begin[0] == '<':
		return errors.New("it is an HTML page, not an answer of Prometheus: is a login needed, or is the URL wrong?")
	case isDump(begin):
		return s.readDump(ctx, in)
	}
	kept := &keepError{Reader: in}
	j := &jsonReader{Store: s, ctx: ctx, Iterator: jsoniter.Parse(jsoniter.ConfigDefault, kept, 64<<10)}
	for j.err() == nil && j.WhatIsNext() != jsoniter.InvalidValue {
		j.answer()
	}
	switch err := j.err(); {
	case kept.err != nil:
		return kept.err
	case err != nil:
		return err
	case j.Error != nil && !errors.Is(j.Error, io.EOF):
		return fmt.Errorf("it is not JSON, or damaged: %w", j.Error)
	case j.Error == nil:
		return errors.New("after an answer there is something else than JSON: is it a part of a page?")
	case !j.any:
		return fmt.Errorf("this JSON is not an answer of Prometheus, as its API gives it: it has no results; ask query_range for '%s'", Query)
	}
	return nil
}

// keepError keeps the error of a reader: what the JSON lacks because of it is not the reason.
type keepError struct {
	io.Reader
	err error
}

func (k *keepError) Read(b []byte) (int, error) {
	n, err := k.Reader.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		k.err = err
	}
	return n, err
}

// jsonReader reads answers.
type jsonReader struct {
	*Store
	*jsoniter.Iterator
	ctx    context.Context //nolint:containedctx // of one call of Read
	failed error
	any    bool // results
}

// err returns why reading ends, other than the end of the file between answers.
func (j *jsonReader) err() error {
	switch {
	case j.failed != nil:
		return j.failed
	case j.ctx.Err() != nil:
		return j.ctx.Err()
	case errors.Is(j.Error, io.EOF):
		return nil
	case j.Error != nil:
		return fmt.Errorf("it is damaged, or was cut short: %w", j.Error)
	}
	return nil
}

// fail ends reading.
func (j *jsonReader) fail(format string, args ...any) {
	if j.failed == nil {
		j.failed = fmt.Errorf(format, args...)
	}
	j.ReportError("read", j.failed.Error())
}

var errInstant = errors.New("it is about one instant: ask query_range instead of query, with start, end and step")

// answer reads an answer, its data, or a list of series.
func (j *jsonReader) answer() {
	if j.WhatIsNext() == jsoniter.ArrayValue {
		j.list()
		return
	}
	problem := ""
	j.ReadObjectCB(func(_ *jsoniter.Iterator, field string) bool {
		switch field {
		case "data":
			if j.WhatIsNext() == jsoniter.ObjectValue {
				j.answer()
				break
			}
			j.Skip()
		case "result":
			if j.WhatIsNext() != jsoniter.ArrayValue {
				j.Skip()
				break
			}
			j.list()
		case "resultType":
			if kind := j.ReadString(); kind != "matrix" {
				j.fail("%w (it is a %s)", errInstant, kind)
			}
		case "error":
			problem = j.ReadString()
		case "warnings":
			j.ReadArrayCB(func(*jsoniter.Iterator) bool {
				if w := j.ReadString(); len(j.Warnings) < maxWarnings && !slices.Contains(j.Warnings, w) {
					j.Warnings = append(j.Warnings, w)
				}
				return true
			})
		default:
			j.Skip()
		}
		return j.failed == nil
	})
	if problem != "" {
		j.fail("it is an error of the server: %s", problem)
	}
}

// list reads series.
func (j *jsonReader) list() {
	j.any = true
	j.ReadArrayCB(func(*jsoniter.Iterator) bool {
		if j.WhatIsNext() != jsoniter.ObjectValue {
			j.fail("%w", errInstant) // of a scalar
			return false
		}
		return j.one() && j.ctx.Err() == nil
	})
}

// one reads a series.
func (j *jsonReader) one() bool {
	var of *series
	known := false // its labels
	j.ReadObjectCB(func(_ *jsoniter.Iterator, field string) bool {
		switch field {
		case "metric":
			var b labels.ScratchBuilder
			j.ReadObjectCB(func(_ *jsoniter.Iterator, name string) bool {
				b.Add(name, j.ReadString())
				return true
			})
			b.Sort()
			of, known = j.open(b.Labels()), true
		case "values":
			if !known {
				j.fail("a series has values before its labels: is this an answer of Prometheus?")
				return false
			}
			j.values(of)
		case "histograms":
			j.ReadArrayCB(func(*jsoniter.Iterator) bool {
				j.Histograms++
				j.Skip()
				return true
			})
		case "value", "histogram":
			j.fail("%w", errInstant)
		default:
			j.Skip()
		}
		return j.failed == nil
	})
	if err := j.count(of); err != nil {
		j.fail("%w", err)
	}
	return j.failed == nil
}

// values reads pairs of a time and a value.
func (j *jsonReader) values(of *series) {
	if of == nil { // not wanted
		j.Skip()
		return
	}
	j.ReadArrayCB(func(*jsoniter.Iterator) bool {
		if !j.ReadArray() {
			return false
		}
		t := j.ReadFloat64()
		if !j.ReadArray() {
			return false
		}
		text := j.ReadString()
		if j.ReadArray() || j.Error != nil {
			j.fail("values must be pairs of a time and a text, as in [1772366400, \"1.5\"]")
			return false
		}
		v, err := strconv.ParseFloat(text, 64)
		switch {
		case err != nil:
			j.fail("%q is not a number", text)
		case !(t > 0 && t < maxTime):
			j.fail("the time %v is not in seconds since 1970", t)
		default:
			if err := j.add(of, int64(t*1000+.5), v); err != nil {
				j.fail("%w", err)
			}
		}
		return j.failed == nil
	})
}

// maxWarnings is how many warnings are kept.
const maxWarnings = 10

// maxTime is the year 2255, in seconds, and in milliseconds 1970.
const maxTime = 9e9

// maxLine bounds the length of a sample in a dump.
const maxLine = 1 << 20

// readDump reads a dump.
func (s *Store) readDump(ctx context.Context, in *bufio.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	var last string // labels of the line before
	var of *series
	p := parser.NewParser(parser.Options{})
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if strings.TrimSpace(line) == "" {
			continue
		}
		if last == "" || !strings.HasPrefix(line, last) {
			close := endOfLabels(line)
			l, err := p.ParseMetric(line[:close])
			switch {
			case close == 0 || err != nil:
				return fmt.Errorf("line %d is not one of 'promtool tsdb dump': want {labels} value milliseconds", n)
			case ctx.Err() != nil:
				return ctx.Err()
			}
			if err := s.count(of); err != nil {
				return err
			}
			last, of = line[:close], s.open(l)
		}
		if err := s.dumped(of, line[len(last):]); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return s.count(of)
}

// dumped adds the value of a line, if its series is wanted.
func (s *Store) dumped(of *series, text string) error {
	value, at, _ := strings.Cut(strings.TrimSpace(text), " ")
	if strings.HasPrefix(value, "{") {
		s.Histograms++
		return nil
	}
	if of == nil {
		return nil
	}
	v, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return fmt.Errorf("%q is not a number", value)
	}
	t, err := strconv.ParseInt(at, 10, 64)
	if err != nil || t < maxTime || t > 1000*maxTime {
		return fmt.Errorf("the time %q is not in milliseconds since 1970", at)
	}
	return s.add(of, t, v)
}

// endOfLabels returns where the labels of a line end, or 0.
func endOfLabels(line string) int {
	quoted := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && c == '}':
			return i + 1
		}
	}
	return 0
}
