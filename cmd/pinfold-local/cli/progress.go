package cli

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// progress tells a person at a terminal what is going on. In a pipe or a file
// it says nothing.
type progress struct {
	out   io.Writer
	begin time.Time
}

func newProgress(out io.Writer) *progress {
	if file, ok := out.(*os.File); !ok || !term.IsTerminal(int(file.Fd())) {
		out = io.Discard
	}
	return &progress{out: out, begin: time.Now()}
}

func (p *progress) step(what string) {
	fmt.Fprintf(p.out, "%5.1fs  %s\n", time.Since(p.begin).Seconds(), what)
}
