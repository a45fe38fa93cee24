package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"pinfold.dev/pinfold/report"
	"pinfold.dev/pinfold/report/terminal"
)

const (
	barWidth     = 30
	progressStep = 200 * time.Millisecond
)

// progress draws how far a recording is, on a terminal; elsewhere only messages come
// through.
type progress struct {
	w        io.Writer // nil when it is no terminal
	messages io.Writer
	duration time.Duration // 0 when samples count, or nothing does
	samples  int           // of each group; 0 when time counts, or nothing does
	shown    time.Duration
	drawn    bool
}

func newProgress(w io.Writer, duration time.Duration, samples int) *progress {
	p := &progress{messages: w, duration: duration, samples: samples, shown: -progressStep}
	if terminal.Is(w) {
		p.w = w
	}
	return p
}

// show draws the state at a time since the recording began; not more often than can be
// seen.
func (p *progress) show(at time.Duration, m *memory) {
	if p.w == nil || at < p.shown+progressStep {
		return
	}
	p.shown, p.drawn = at, true
	line := p.line(at, m)
	if columns := terminal.Columns(p.w); columns > 0 {
		line = line[:min(len(line), columns-1)] // on a second line it could not be replaced; it is ASCII
	}
	fmt.Fprintf(p.w, "\r\x1b[K%s", line)
}

// line is what is drawn. Without an end there is no bar.
func (p *progress) line(at time.Duration, m *memory) string {
	counts := fmt.Sprintf("%d samples, %d late", m.samples, m.late)
	elapsed := at.Round(100 * time.Millisecond)
	done := 0.0
	switch {
	case p.duration > 0:
		done = share(at, p.duration)
	case p.samples > 0:
		done = ratio(float64(m.longest), float64(p.samples))
	default:
		return fmt.Sprintf("%v  %s  (ctrl-C ends)", elapsed, counts)
	}
	filled := int(min(done, 1) * barWidth)
	return fmt.Sprintf("[%s%s] %3.0f%%  %v  %s", strings.Repeat("#", filled), strings.Repeat(".", barWidth-filled), 100*min(done, 1), elapsed, counts)
}

// say prints a message on a line of its own.
func (p *progress) say(message string) {
	p.end()
	fmt.Fprintln(p.messages, report.Printable(message))
}

// end removes what was drawn.
func (p *progress) end() {
	if p.drawn {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.drawn = false
	}
}
