package report

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"pinfold.dev/pinfold/core/quantity"
)

// Printable replaces unprintable characters, and bytes that are no UTF-8, by "?". In names from
// elsewhere they could move the cursor, change colours or fake lines. As a pattern, the result matches
// the original.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return '?'
		}
		return r
	}, s)
}

// Line prints a name, padded to 10 characters, and a formatted text.
func Line(w io.Writer, name, format string, args ...any) {
	fmt.Fprintf(w, "%-10s %s\n", name, fmt.Sprintf(format, args...))
}

// Flush flushes what was printed. The error says what was being done.
func Flush(b *bufio.Writer, doing string) error {
	if err := b.Flush(); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// Table prints right-aligned columns, two spaces apart.
func Table(w io.Writer, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			fmt.Fprintf(&line, "%*s  ", widths[i], cell)
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

// Burst is a burst in multiples of the quota. +Inf is unlimited.
type Burst float64

// String returns the burst as flags accept it.
func (b Burst) String() string {
	switch {
	case math.IsInf(float64(b), 1):
		return "inf"
	case b == 0:
		return "0"
	}
	return quantity.Share(b).Text()
}

// MarshalJSON writes a number, or "inf", since JSON has no infinity.
func (b Burst) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(b), 1) {
		return json.Marshal(b.String())
	}
	return json.Marshal(float64(b))
}

// Wrap breaks a text between words into lines of at most width characters. A word that is wider is
// cut. The result has at least one line.
func Wrap(s string, width int) []string {
	if lines := wrap(separated(strings.Fields(s), " "), width); len(lines) > 0 {
		return lines
	}
	return []string{""}
}

// wrap joins tokens into lines of at most width characters. A token that is wider is cut. Spaces at
// the end of a line do not count.
func wrap(tokens []string, width int) []string {
	var lines []string
	current, used := "", 0
	for _, token := range tokens {
		for {
			size := utf8.RuneCountInString(strings.TrimRight(token, " "))
			if used+size <= width {
				current += token
				used += utf8.RuneCountInString(token)
				break
			}
			if used > 0 {
				lines = append(lines, strings.TrimRight(current, " "))
				current, used = "", 0
				continue
			}
			runes := []rune(token)
			lines = append(lines, string(runes[:width]))
			token = string(runes[width:])
		}
	}
	if current = strings.TrimRight(current, " "); current != "" {
		lines = append(lines, current)
	}
	return lines
}

// wrapped is wrap for the lines of a drawing.
func wrapped(tokens []string, width int) []line {
	var lines []line
	for _, s := range wrap(tokens, width) {
		lines = append(lines, text(s, plain))
	}
	return lines
}

// separated returns tokens for wrap: each piece but the last is followed by the separator.
func separated(pieces []string, separator string) []string {
	tokens := slices.Clone(pieces)
	for i := range len(tokens) - 1 {
		tokens[i] += separator
	}
	return tokens
}

// colour is an ANSI foreground colour, or plain.
type colour string

const (
	plain   colour = ""
	dim     colour = "2"
	bold    colour = "1"
	warning colour = "1;31"
)

// ownerColour returns the colour of the ith owner, one of a few in turn. They differ in lightness
// and hue, and are readable on dark and light backgrounds.
func ownerColour(i int) colour { return []colour{"36", "33", "35", "32", "34", "31"}[i%6] }

// glyph is one character of the terminal.
type glyph struct {
	char   rune
	colour colour
}

type line []glyph

// text returns a line of one colour, with unprintable characters replaced.
func text(s string, c colour) line {
	l := make(line, 0, len(s))
	for _, r := range Printable(s) {
		l = append(l, glyph{r, c})
	}
	return l
}

// padded returns the line with spaces up to width.
func (l line) padded(width int) line {
	if missing := width - len(l); missing > 0 {
		l = append(slices.Clip(l), slices.Repeat(line{{' ', plain}}, missing)...)
	}
	return l
}

// printer writes lines. The first error is kept for Flush.
type printer struct {
	*bufio.Writer
	colour bool
}

// print writes one line without trailing spaces.
func (p *printer) print(l line) {
	for len(l) > 0 && l[len(l)-1].char == ' ' {
		l = l[:len(l)-1]
	}
	current := plain
	for _, g := range l {
		if p.colour && g.colour != current && g.char != ' ' {
			if current != plain {
				p.WriteString("\x1b[0m")
			}
			if g.colour != plain {
				p.WriteString("\x1b[" + string(g.colour) + "m")
			}
			current = g.colour
		}
		p.WriteRune(g.char)
	}
	if current != plain {
		p.WriteString("\x1b[0m")
	}
	p.WriteByte('\n')
}
