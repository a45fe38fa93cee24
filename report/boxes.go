package report

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"pinfold.dev/pinfold/core/topology"
)

// frame is the width of "│ " and " │".
const frame = 4

// cellGap is the space between two cells.
const cellGap = 3

func boxes(m *topology.Machine, k *key, width int) []line {
	sections := sectionsOf(m)
	inner := width - frame
	heads := make([][]string, len(sections))
	bodies := make([][]line, len(sections))
	labelWidth := cutCells(sections, inner)
	content := 0
	for i := range sections {
		s := &sections[i]
		var body []line
		heads[i], body = s.heading(i == 0 || s.pkg != sections[i-1].pkg, k, inner)
		bodies[i] = append(body, shelves(s.cells, k, labelWidth, inner)...)
		content = max(content, len([]rune(heads[i][0])))
		for _, l := range bodies[i] {
			content = max(content, len(l))
		}
	}
	var out []line
	for i, s := range sections {
		left, right := '├', '┤'
		if i == 0 || s.pkg != sections[i-1].pkg {
			left, right = '┌', '┐'
		}
		out = append(out, rule(left, heads[i][0], right, content))
		for _, l := range bodies[i] {
			out = append(out, slices.Concat(text("│ ", dim), l.padded(content), text(" │", dim)))
		}
		if i == len(sections)-1 || s.pkg != sections[i+1].pkg {
			out = append(out, rule('└', "", '┘', content))
		}
	}
	return out
}

// rule returns a horizontal line with a heading.
func rule(left rune, heading string, right rune, content int) line {
	l := text(string(left), dim)
	if heading != "" {
		l = append(l, text(" "+heading+" ", bold)...)
	}
	l = append(l, text(strings.Repeat("─", content+frame-1-len(l)), dim)...)
	return append(l, text(string(right), dim)...)
}

// heading returns the section's heading. The part that does not fit and the confined owners become
// lines of the body.
func (s *section) heading(withPackage bool, k *key, inner int) (head []string, body []line) {
	notes := s.notes
	if withPackage {
		notes = append([]string{fmt.Sprintf("Package %d", s.pkg)}, notes...)
	}
	head = wrap(separated(notes, " · "), inner)
	for i := range head[:len(head)-1] {
		head[i] = strings.TrimSuffix(head[i], " ·")
	}
	for _, rest := range head[1:] {
		body = append(body, text(rest, bold))
	}
	return head, append(body, k.confinedHere(s.cpus, inner)...)
}

// cutCells cuts cells that are too wide and returns the width of row labels. It is the same in the
// whole drawing, so that the cells of regular machines are aligned.
func cutCells(sections []section, inner int) int {
	longest := 0
	for _, s := range sections {
		for _, c := range s.cells {
			longest = max(longest, c.longestLabel())
		}
	}
	maxColumns := columnsIn(inner - longest - 1)
	labelWidth := 0
	for i := range sections {
		var cut []cell
		for _, c := range sections[i].cells {
			for _, part := range c.cut(maxColumns) {
				cut = append(cut, cell{c.title, part})
				for r := range part.first {
					labelWidth = max(labelWidth, len(part.label(r)))
				}
			}
		}
		sections[i].cells = cut
	}
	return labelWidth
}

// columnsIn returns how many columns fit into a width, with a gap after every group.
func columnsIn(width int) int { return width - (width-1)/(groupSize+1) }

// width returns the length of the cell's longest line.
func (c cell) width(labelWidth int) int {
	return max(utf8.RuneCountInString(c.title), labelWidth+1+c.cores+(c.cores-1)/groupSize)
}

func (c cell) draw(k *key, labelWidth int) []line {
	lines := []line{text(c.title, plain)}
	for r := range c.first {
		l := text(fmt.Sprintf("%*s ", labelWidth, c.label(r)), dim)
		for column := range c.cores {
			if column > 0 && column%groupSize == 0 {
				l = append(l, glyph{' ', plain})
			}
			l = append(l, k.glyph(c.cpu(r, column)))
		}
		lines = append(lines, l)
	}
	return lines
}

// shelves arranges cells from left to right and top to bottom.
func shelves(cells []cell, k *key, labelWidth, inner int) []line {
	var out, shelf []line
	used := 0
	widest := map[int]int{} // by number of cores: such cells get the same width, to be aligned
	for _, c := range cells {
		widest[c.cores] = max(widest[c.cores], c.width(labelWidth))
	}
	for _, c := range cells {
		drawn := c.draw(k, labelWidth)
		size := widest[c.cores]
		if used > 0 && used+cellGap+size > inner {
			out = append(out, shelf...)
			shelf, used = nil, 0
		}
		if used > 0 {
			used += cellGap
		}
		for len(shelf) < len(drawn) {
			shelf = append(shelf, nil)
		}
		for i := range drawn {
			shelf[i] = append(shelf[i].padded(used), drawn[i]...)
		}
		used += size
	}
	return append(out, shelf...)
}
