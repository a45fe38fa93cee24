//go:build linux

package frame

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/report/terminal/terminaltest"
	"pinfold.dev/pinfold/test/must"
)

func TestProgress(t *testing.T) {
	full := func() string { return Bar(1) }
	var b bytes.Buffer
	p := NewProgress(&b)
	p.DrawAt(time.Second, full)
	p.Say("message")
	if b.String() != "message\n" {
		t.Errorf("a writer that is not a terminal gets %q", &b)
	}
	p.terminal, p.drawn = &b, -time.Second
	b.Reset()
	p.DrawAt(time.Second, full)
	p.DrawAt(time.Second+progressStep/2, full) // too soon
	p.Say("message")
	p.End()
	if got := b.String(); strings.Count(got, "100%") != 1 || !strings.HasSuffix(got, "\r\x1b[Kmessage\n") {
		t.Errorf("a terminal gets %q", got)
	}
}

// TestNarrowProgress draws lines that fit on the terminal, so that the next replaces them.
func TestNarrowProgress(t *testing.T) {
	person, screen := terminaltest.Pair(t, 20)
	p := NewProgress(screen)
	p.DrawAt(time.Second, func() string { return Bar(1) })
	shown := make([]byte, 200)
	n := must.Get(person.Read(shown))(t)
	if want := "\r\x1b[K[##################"; string(shown[:n]) != want {
		t.Errorf("%q, want %q", shown[:n], want)
	}
}
