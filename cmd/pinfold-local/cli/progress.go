package cli

import (
	"fmt"
	"io"
	"time"

	"pinfold.dev/pinfold/report/terminal"
)

// progress tells a person at a terminal what is going on. In a pipe or a file
// it says nothing.
type progress struct {
	out   io.Writer
	begin time.Time
}

func newProgress(out io.Writer) *progress {
	if !terminal.Is(out) {
		out = io.Discard
	}
	return &progress{out: out, begin: time.Now()}
}

func (p *progress) step(what string) {
	fmt.Fprintf(p.out, "%5.1fs  %s\n", time.Since(p.begin).Seconds(), what)
}
