package top

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"pinfold.dev/pinfold/core/quantity"
)

// Size is the drawing area.
type Size struct {
	Width  int // characters; 0 is unlimited
	Height int // lines; 0 is unlimited, without the lines of status and keys
	Colour bool
}

// Widths of names and bars.
const (
	nameMin  = 14
	nameLast = 8 // with only one column
	barsMin  = 8
	barsDrop = 7 // column.drop of the bars
)

// layout is the widths and columns that fit.
type layout struct {
	name, bars int
	columns    []column
}

// layoutFor omits columns until the rest fits. The remaining width goes to names, then to bars.
func layoutFor(width, longest int, waits bool) layout {
	all := slices.DeleteFunc(columns(), func(c column) bool { return c.title == waitTitle && !waits })
	if width == 0 {
		return layout{name: longest, bars: 20, columns: all}
	}
	l := layout{name: min(longest, nameMin), bars: barsMin, columns: all}
	for drop := 1; l.width() > width && drop <= 9; drop++ {
		if drop == 9 {
			l.name = min(l.name, nameLast)
			if l.width() <= width {
				break
			}
		}
		if drop == barsDrop {
			l.bars = 0
		}
		l.columns = slices.DeleteFunc(l.columns, func(c column) bool { return c.drop == drop })
	}
	if over := l.width() - width; over > 0 {
		l.name = max(l.name-over, 1)
	}
	l.name = min(longest, l.name+max(width-l.width(), 0))
	if l.bars > 0 {
		l.bars = min(bars, l.bars+max(width-l.width(), 0))
	}
	return l
}

func (l layout) width() int {
	w := l.name
	if l.bars > 0 {
		w += 1 + l.bars
	}
	for _, c := range l.columns {
		w += 1 + c.width
	}
	return w
}

const (
	nameTitle = "CONTAINER"
	minNext   = 8 // lines that leave one for [Model.Next]
)

// Draw draws the table. Every line ends with a newline.
func (m *Model) Draw(s Size) string {
	rows, hidden := m.shown()
	longest, waits := len(nameTitle), false
	for _, r := range rows {
		longest = max(longest, utf8.RuneCountInString(r.name))
		waits = waits || r.waitKnown
	}
	l := layoutFor(s.Width, longest, waits)
	p := palette{s.Colour}
	lines := []string{p.bold(l.titles())}
	next := m.next(rows)
	if s.Height > 0 {
		shown, others := len(rows), 3 // the first two lines and the last one
		if next != "" && s.Height >= minNext {
			others++
		} else {
			next = ""
		}
		rows = m.scroll(rows, s.Height-others)
		lines = append([]string{m.status(shown, hidden, s.Width)}, lines...)
	}
	for _, r := range rows {
		lines = append(lines, l.line(r, p))
	}
	if s.Height == 0 && next != "" {
		lines = append(lines, next)
	}
	if s.Height > 0 {
		for len(lines) < s.Height-1 {
			lines = append(lines, "")
		}
		if next != "" {
			lines[len(lines)-1] = cut(next, s.Width)
		}
		lines = append(lines, p.dim(m.keys(s.Width)))
		lines = lines[:max(min(len(lines), s.Height), 1)]
	}
	return strings.Join(lines, "\n") + "\n"
}

// scroll returns the rows that fit.
func (m *Model) scroll(rows []*row, room int) []*row {
	m.page = max(room, 0)
	m.top = max(0, min(m.top, len(rows)-m.page))
	return rows[m.top:min(len(rows), m.top+m.page)]
}

func (m *Model) status(shown, hidden, width int) string {
	text := quantity.Count(shown, "group")
	if hidden > 0 {
		text += fmt.Sprintf(" (and %d hidden)", hidden)
	}
	if m.top > 0 {
		text += fmt.Sprintf(", from %d on", m.top+1)
	}
	if m.Status.Message != "" {
		text += " | " + m.Status.Message
	}
	text += fmt.Sprintf(" | sampling %.1f%% of a CPU, %d late, %d missed", 100*m.Status.Share, m.Status.Late, m.Status.Missed)
	return cut(text, width)
}

// keys returns the last line, which explains as many keys as fit.
func (m *Model) keys(width int) string {
	text := "q quit"
	hints := []string{}
	for _, o := range Orders() {
		hint := string(o[:1]) + " " + string(o)
		if o == m.Sort {
			hint = "[" + hint + "]"
		}
		hints = append(hints, hint)
	}
	for _, hint := range append(hints, "r reverse", "a all", "j k scroll") {
		if width > 0 && len(text)+2+len(hint) > width {
			break
		}
		text += "  " + hint
	}
	return cut(text, width)
}

func (l layout) titles() string {
	text := fit(nameTitle, l.name)
	for i, c := range l.columns {
		if i == l.barsAt() {
			text += " " + fit(barsTitle(l.bars), l.bars)
		}
		text += fmt.Sprintf(" %*s", c.width, c.title)
	}
	return strings.TrimRight(text, " ")
}

func barsTitle(width int) string {
	if width < len("LAST PERIODS") {
		return "PERIODS"
	}
	return "LAST PERIODS"
}

// barsAt returns the index of the column after the bars, the first about throttled periods. It is
// -1 without bars.
func (l layout) barsAt() int {
	if l.bars == 0 {
		return -1
	}
	return slices.IndexFunc(l.columns, func(c column) bool { return strings.HasPrefix(c.title, "THR/") })
}

func (l layout) line(r *row, p palette) string {
	text := fit(r.name, l.name)
	for i, c := range l.columns {
		if i == l.barsAt() {
			text += " " + draw(r, l.bars, p)
		}
		figure := fmt.Sprintf("%*s", c.width, c.text(r))
		if c.alarm != nil && c.alarm(r) {
			figure = p.alarm(figure)
		}
		text += " " + figure
	}
	return strings.TrimRight(text, " ")
}

// palette colours text if colour is set.
type palette struct{ colour bool }

func (p palette) alarm(text string) string { return p.with("31", text) }
func (p palette) bold(text string) string  { return p.with("1", text) }
func (p palette) dim(text string) string   { return p.with("2", text) }

func (p palette) with(code, text string) string {
	if !p.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
