package remote

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// TestSplit cuts streams at every byte: what arrives is a beginning of what was sent, and a cut
// within a chunk is an error.
func TestSplit(t *testing.T) {
	var sent bytes.Buffer
	whole := map[int]bool{0: true}
	for _, c := range []struct {
		s    Stream
		text string
	}{{File, "a"}, {Result, "x\n"}, {Ready, ""}, {File, "bc"}, {Whole, ""}} {
		if _, err := io.WriteString(To(&sent, c.s), c.text); err != nil {
			t.Fatal(err)
		}
		whole[sent.Len()] = true
	}
	for end := range sent.Len() + 1 {
		var file, result strings.Builder
		calls := 0
		call := Func(func() { calls++ })
		err := Split(iotest.OneByteReader(bytes.NewReader(sent.Bytes()[:end])), map[Stream]io.Writer{File: &file, Result: &result, Ready: call, Whole: call})
		if whole[end] != (err == nil) || err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d bytes: %v", end, err)
		}
		if !strings.HasPrefix("abc", file.String()) || !strings.HasPrefix("x\n", result.String()) {
			t.Errorf("%d bytes: %q, %q", end, file.String(), result.String())
		}
		if end == sent.Len() && (file.String() != "abc" || result.String() != "x\n" || calls != 2) {
			t.Errorf("%q, %q, %d calls", file.String(), result.String(), calls)
		}
	}
	if err := Split(strings.NewReader("time,group"), nil); err == nil {
		t.Error("another program's output is accepted")
	}
}
