package top

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/trace"
)

// column is a column of figures. Names and bars, whose widths vary, are not columns.
type column struct {
	title string
	width int
	drop  int // columns with the lowest value are omitted first; see barsDrop
	text  func(*row) string
	alarm func(*row) bool // whether to highlight the figure; nil: never
}

const nothing = "-"

func columns() []column {
	last := func(d time.Duration) func(*row) cell { return func(r *row) cell { return r.last(d) } }
	cpus := func(of func(*row) cell) func(*row) string {
		return func(r *row) string { return number(of(r).cpus()) }
	}
	share := func(of func(*row) cell) func(*row) string {
		return func(r *row) string {
			if s, limited := of(r).ofLimit(); limited {
				return percent(s)
			}
			return nothing
		}
	}
	full := func(of func(*row) cell) func(*row) bool {
		return func(r *row) bool { s, _ := of(r).ofLimit(); return s >= 0.9 }
	}
	now, second := last(cellTime), last(time.Second)
	throttled := func(r *row) bool { return r.last(window).throttled > 0 }
	return []column{
		{title: "LIMIT", width: 6, drop: 5, text: limit},
		{title: "100ms", width: 6, drop: 1, text: cpus(now)},
		{title: "100ms%", width: 6, drop: 2, text: share(now), alarm: full(now)},
		{title: "1s", width: 6, drop: 9, text: cpus(second)},
		{title: "1s%", width: 6, drop: 6, text: share(second), alarm: full(second)},
		{title: "THR/TIMER", width: 9, drop: 3, text: timer, alarm: throttled},
		{title: "THR/WALL", width: 8, drop: 8, text: wall, alarm: throttled},
		{title: "BURST", width: 7, drop: 4, text: burst},
		{title: waitTitle, width: 5, drop: 3, text: wait},
	}
}

const waitTitle = "WAIT"

func wait(r *row) string {
	if !r.waitKnown {
		return nothing
	}
	return percent(r.wait)
}

func limit(r *row) string {
	cpus, limited := r.limits.CPUs()
	if !limited {
		return nothing
	}
	return number(cpus)
}

func timer(r *row) string {
	c := r.last(window)
	if c.timer == 0 {
		return nothing
	}
	return percent(c.throttledOfTimer())
}

func wall(r *row) string {
	if _, limited := r.limits.CPUs(); !limited {
		return nothing
	}
	return percent(r.last(window).throttledOfWall())
}

func burst(r *row) string {
	if r.unknown.Has(trace.Bursts) {
		return nothing
	}
	switch d := r.last(window).burst; {
	case d == 0:
		return "0"
	case d < time.Second:
		return fmt.Sprintf("%.1fms", float64(d)/float64(time.Millisecond))
	default:
		return number(min(d.Seconds(), 99999)) + "s"
	}
}

// number and percent return at most six characters, even for absurd values.
func number(x float64) string {
	if x >= 999.995 {
		return fmt.Sprintf("%.0f", min(x, 999999))
	}
	return fmt.Sprintf("%.2f", x)
}

func percent(share float64) string { return quantity.Share(min(share, 999.99)).Whole() }

const (
	heights      = "▁▂▃▄▅▆▇█"
	heightsCount = 8
	throttledBar = "!" // without colours
)

// draw draws bars, the newest on the right. Full height is the limit, or without one the next whole
// number of CPUs above all bars.
func draw(r *row, width int, p palette) string {
	shown := r.recent(width)
	scale := 1.0
	if _, limited := r.limits.CPUs(); !limited {
		for _, b := range shown {
			scale = max(scale, math.Ceil(b.height))
		}
	}
	var out strings.Builder
	out.WriteString(strings.Repeat(" ", width-len(shown)))
	for _, b := range shown {
		switch glyph := glyphOf(b.height / scale); {
		case b.throttled && p.colour:
			out.WriteString(p.alarm(glyph))
		case b.throttled:
			out.WriteString(throttledBar)
		default:
			out.WriteString(glyph)
		}
	}
	return out.String()
}

// glyphOf returns a bar with a share of the full height, a space for 0.
func glyphOf(share float64) string {
	if share <= 0 {
		return " "
	}
	i := min(int(share*heightsCount), heightsCount-1)
	return string([]rune(heights)[i])
}

// fit pads or cuts a text to a width. It keeps the end.
func fit(text string, width int) string {
	if n := utf8.RuneCountInString(text); n <= width {
		return text + strings.Repeat(" ", width-n)
	}
	if width <= 0 {
		return ""
	}
	runes := []rune(text)
	return "…" + string(runes[len(runes)-width+1:])
}

// cut cuts a text to at most a width, 0 for unlimited. It keeps the beginning.
func cut(text string, width int) string {
	if width == 0 || utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:max(width, 0)])
}
