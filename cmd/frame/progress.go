package frame

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

// Progress is a line on a terminal that is drawn again and again, or a list of steps. If the writer
// is not a terminal, only messages are printed.
type Progress struct {
	terminal io.Writer // nil if the writer is not a terminal
	messages io.Writer
	start    time.Time
	drawn    time.Duration // when, since the start
	visible  bool
}

// NewProgress returns a line that is not drawn yet.
func NewProgress(w io.Writer) *Progress {
	p := &Progress{messages: w, start: time.Now(), drawn: -progressStep}
	if terminal.Is(w) {
		p.terminal = w
	}
	return p
}

// Elapsed returns the time since the start, for display.
func (p *Progress) Elapsed() time.Duration { return time.Since(p.start).Round(100 * time.Millisecond) }

// Draw draws the line, which must be ASCII, unless the last drawing is too recent.
func (p *Progress) Draw(line func() string) { p.DrawAt(time.Since(p.start), line) }

// DrawAt is Draw at a given time since the start.
func (p *Progress) DrawAt(at time.Duration, line func() string) {
	if p.terminal == nil || at < p.drawn+progressStep {
		return
	}
	p.drawn, p.visible = at, true
	text := line()
	if columns := terminal.Columns(p.terminal); columns > 0 {
		text = text[:min(len(text), columns-1)] // a line that wraps could not be replaced
	}
	fmt.Fprintf(p.terminal, "\r\x1b[K%s", text)
}

// Step prints what is done next, with the time since the start.
func (p *Progress) Step(what string) {
	if p.terminal != nil {
		fmt.Fprintf(p.terminal, "%5.1fs  %s\n", time.Since(p.start).Seconds(), what)
	}
}

// Say prints a message on a line of its own.
func (p *Progress) Say(message string) {
	p.End()
	fmt.Fprintln(p.messages, report.Printable(message))
}

// End removes the line.
func (p *Progress) End() {
	if p.visible {
		fmt.Fprint(p.terminal, "\r\x1b[K")
		p.visible = false
	}
}

// Bar draws the share that is done.
func Bar(done float64) string {
	filled := int(min(done, 1) * barWidth)
	return fmt.Sprintf("[%s%s] %3.0f%%", strings.Repeat("#", filled), strings.Repeat(".", barWidth-filled), 100*min(done, 1))
}
