// Package session draws what commands printed on a terminal as a picture that plays it: an SVG with
// animations of CSS, which a page shows like any image.
//
//	err := session.Draw(file, []session.Step{{Command: "pinfold top", Output: table}})
//
// Without animations, and where a reader wants less motion, it shows everything at once.
package session

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// Step is a command and what it printed.
type Step struct {
	Command, Output string
	// Reads is how long a reader needs for the output.
	Reads time.Duration
}

// The picture's measures, in pixels. An advance is the width of a character.
const (
	advance, leading, margin = 7.23, 17.0, 16.0
	typing                   = 1200 * time.Millisecond // of a command
	ending                   = 3 * time.Second         // until it begins again
)

const head = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" role="img" aria-label="%s">
<style>
rect { fill: #11151c }
text { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d7dde6; white-space: pre }
.typed { fill: #7ee787 }
.comment { fill: #ffb454 }
g { animation: %.1fs step-end infinite }
@media (prefers-reduced-motion: reduce) { g { animation: none } }
%s</style>
<rect width="100%%" height="100%%" rx="8"/>
`

// Draw writes the picture. title describes it for those who do not see it.
func Draw(out io.Writer, title string, steps []Step) error {
	var total time.Duration
	widest, lines := 0, 0
	for _, step := range steps {
		total += typing + step.Reads
		for line := range strings.Lines("$ " + step.Command + "\n" + step.Output) {
			widest, lines = max(widest, utf8.RuneCountInString(strings.TrimRight(line, "\n"))), lines+1
		}
		lines++ // an empty one
	}
	total += ending
	var rules, body strings.Builder
	var at time.Duration
	y := margin + leading/2
	appear := func(text, class string) {
		i := strings.Count(rules.String(), "@keyframes")
		if at > 0 {
			fmt.Fprintf(&rules, "@keyframes k%d { 0%% { opacity: 0 } %.1f%% { opacity: 1 } }\n.k%d { animation-name: k%d }\n", i, 100*at.Seconds()/total.Seconds(), i, i)
			fmt.Fprintf(&body, "<g class=\"k%d\">\n", i)
		} else {
			body.WriteString("<g>\n")
		}
		for line := range strings.Lines(text) {
			line, of := strings.TrimRight(line, "\n"), class
			if class == "" && strings.Contains(line, "   # ") {
				of = "comment"
			}
			fmt.Fprintf(&body, "<text x=\"%.0f\" y=\"%.1f\" class=\"%s\">%s</text>\n", margin, y, of, escaped(line))
			y += leading
		}
		body.WriteString("</g>\n")
	}
	for _, step := range steps {
		appear("$ "+step.Command+"\n", "typed")
		at += typing
		appear(step.Output, "")
		at += step.Reads
		y += leading
	}
	width := 2*margin + advance*float64(widest)
	_, err := fmt.Fprintf(out, head+"%s</svg>\n", width, 2*margin+leading*float64(lines-1), width, escaped(title), total.Seconds(), rules.String(), body.String())
	return err
}

func escaped(text string) string {
	var out strings.Builder
	_ = xml.EscapeText(&out, []byte(text)) // no error with a Builder
	return out.String()
}
