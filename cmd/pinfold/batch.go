package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"pinfold.dev/pinfold/core/placement"
)

// maxLine is the longest request that is read, without its line end.
const maxLine = 16 << 20

// errTooLong says that a line is longer than maxLine. The rest of it has been
// skipped.
var errTooLong = fmt.Errorf("the line is longer than %d MiB", maxLine>>20)

// refusal is the answer to a request that cannot be served.
type refusal struct {
	Error string `json:"error"`
}

// answerBatch answers the requests of a file line by line. It holds one line and
// a few machines in memory, however long the file is, and writes out whatever is
// answered before it waits for more input, so that it can be talked to through
// pipes.
func answerBatch(ctx context.Context, name string, stdin io.Reader, stdout io.Writer) error {
	in, dir := stdin, "."
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("--batch: %w", err)
		}
		defer f.Close()
		in, dir = f, filepath.Dir(name)
	}
	lines := &lineReader{r: bufio.NewReaderSize(in, 64<<10)}
	out := bufio.NewWriterSize(stdout, 64<<10)
	machines := newMachines(dir)
	for number := 1; ; number++ {
		if err := ctx.Err(); err != nil {
			return errors.Join(err, out.Flush())
		}
		if lines.r.Buffered() == 0 {
			if err := out.Flush(); err != nil {
				return fmt.Errorf("print the answers: %w", err)
			}
		}
		line, err := lines.next()
		if errors.Is(err, io.EOF) {
			return flushed(out)
		}
		if err != nil && !errors.Is(err, errTooLong) {
			return errors.Join(fmt.Errorf("--batch %s: line %d: %w", name, number, err), out.Flush())
		}
		var reply any
		if err == nil {
			reply, err = answerLine(machines, line)
		}
		if err != nil {
			reply = refusal{fmt.Sprintf("line %d: %v", number, err)}
		}
		if err := printJSON(out, reply); err != nil {
			return err
		}
	}
}

func flushed(out *bufio.Writer) error {
	if err := out.Flush(); err != nil {
		return fmt.Errorf("print the answers: %w", err)
	}
	return nil
}

// answerLine answers one request.
func answerLine(machines *machines, line []byte) (any, error) {
	if len(bytes.TrimSpace(line)) == 0 {
		return nil, errors.New("the line is empty, want one request per line")
	}
	r, err := decodeRequest(line)
	if err != nil {
		return nil, err
	}
	index, err := machines.get(r)
	if err != nil {
		return nil, err
	}
	m := index.Machine()
	free := m.Online()
	if r.Free != nil {
		if free, err = freeCPUs(m, *r.Free); err != nil {
			return nil, fmt.Errorf("free: %w", err)
		}
	}
	result, err := index.Place(free, placement.Request{CPUs: r.CPUs, Policy: r.Policy, FullCores: r.FullCores})
	if err != nil {
		return nil, fmt.Errorf("cannot place: %w", err)
	}
	return newAnswer(m, result), nil
}

// lineReader splits its input into lines of at most maxLine bytes.
type lineReader struct {
	r    *bufio.Reader
	line []byte
}

// next returns the next line without its end, valid until the next call; at the
// end of the input io.EOF. A last line without an end counts. After errTooLong
// the reader is at the beginning of the next line.
func (l *lineReader) next() ([]byte, error) {
	l.line = l.line[:0]
	tooLong := false
	for {
		part, err := l.r.ReadSlice('\n')
		ended := err == nil
		if ended {
			part = part[:len(part)-1]
		}
		if tooLong = tooLong || len(l.line)+len(part) > maxLine; !tooLong {
			l.line = append(l.line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && err != io.EOF:
			return nil, err
		case err == io.EOF && len(l.line) == 0 && !tooLong:
			return nil, io.EOF
		case tooLong:
			return nil, errTooLong
		}
		return l.line, nil
	}
}
