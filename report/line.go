package report

import (
	"bufio"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// colour is an ANSI foreground colour, or plain.
type colour string

const (
	plain   colour = ""
	dim     colour = "2"
	bold    colour = "1"
	warning colour = "1;31"
)

// ownerColours are taken in turn. They differ in lightness as well as in hue and
// are readable on dark and on light ground.
func ownerColours() []colour { return []colour{"36", "33", "35", "32", "34", "31"} }

// glyph is one character cell of the terminal.
type glyph struct {
	char   rune
	colour colour
}

// line is one line of a drawing.
type line []glyph

// Printable replaces characters that do not print by "?": in names from elsewhere they
// could move the cursor, change colours or make up lines.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// text makes a line of one colour, as far as it is Printable.
func text(s string, c colour) line {
	l := make(line, 0, len(s))
	for _, r := range Printable(s) {
		l = append(l, glyph{r, c})
	}
	return l
}

// padded returns the line filled with blanks up to width.
func (l line) padded(width int) line {
	if missing := width - len(l); missing > 0 {
		l = append(slices.Clip(l), slices.Repeat(line{{' ', plain}}, missing)...)
	}
	return l
}

// printer writes lines and keeps the first error.
type printer struct {
	w      *bufio.Writer
	colour bool
}

func newPrinter(w io.Writer, colour bool) *printer {
	return &printer{bufio.NewWriter(w), colour}
}

// print writes one line without the blanks at its end.
func (p *printer) print(l line) {
	for len(l) > 0 && l[len(l)-1].char == ' ' {
		l = l[:len(l)-1]
	}
	current := plain
	for _, g := range l {
		if p.colour && g.colour != current && g.char != ' ' {
			if current != plain {
				p.w.WriteString("\x1b[0m")
			}
			if g.colour != plain {
				p.w.WriteString("\x1b[" + string(g.colour) + "m")
			}
			current = g.colour
		}
		p.w.WriteRune(g.char)
	}
	if current != plain {
		p.w.WriteString("\x1b[0m")
	}
	p.w.WriteByte('\n')
}

// wrap sets tokens one after the other into lines of at most width characters.
// A token that is itself wider is cut. Blanks at the end of a line do not count.
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

// joined makes tokens for wrap out of pieces: the separator stays with the piece
// before it.
func joined(pieces []string, separator string) []string {
	tokens := slices.Clone(pieces)
	for i := range len(tokens) - 1 {
		tokens[i] += separator
	}
	return tokens
}
