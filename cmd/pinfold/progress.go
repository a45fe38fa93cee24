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

// progressLine draws how far something is, on one line of a terminal; elsewhere only
// messages come through.
type progressLine struct {
	w        io.Writer // nil when it is no terminal
	messages io.Writer
	shown    time.Duration
	drawn    bool
}

func newProgressLine(w io.Writer) progressLine {
	l := progressLine{messages: w, shown: -progressStep}
	if terminal.Is(w) {
		l.w = w
	}
	return l
}

// draw draws the state at a time since the beginning; not more often than can be seen.
func (l *progressLine) draw(at time.Duration, state func() string) {
	if l.w == nil || at < l.shown+progressStep {
		return
	}
	l.shown, l.drawn = at, true
	line := state()
	if columns := terminal.Columns(l.w); columns > 0 {
		line = line[:min(len(line), columns-1)] // on a second line it could not be replaced; it is ASCII
	}
	fmt.Fprintf(l.w, "\r\x1b[K%s", line)
}

// say prints a message on a line of its own.
func (l *progressLine) say(message string) {
	l.end()
	fmt.Fprintln(l.messages, report.Printable(message))
}

// end removes what was drawn.
func (l *progressLine) end() {
	if l.drawn {
		fmt.Fprint(l.w, "\r\x1b[K")
		l.drawn = false
	}
}

// bar draws the share that is done.
func bar(done float64) string {
	filled := int(min(done, 1) * barWidth)
	return fmt.Sprintf("[%s%s] %3.0f%%", strings.Repeat("#", filled), strings.Repeat(".", barWidth-filled), 100*min(done, 1))
}

// progress is how far a recording is.
type progress struct {
	progressLine
	duration time.Duration // 0 when samples count, or nothing does
	samples  int           // of each group; 0 when time counts, or nothing does
}

func newProgress(w io.Writer, duration time.Duration, samples int) *progress {
	return &progress{progressLine: newProgressLine(w), duration: duration, samples: samples}
}

// show draws the state at a time since the recording began.
func (p *progress) show(at time.Duration, m *memory) {
	p.draw(at, func() string { return p.line(at, m) })
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
	return fmt.Sprintf("%s  %v  %s", bar(done), elapsed, counts)
}
