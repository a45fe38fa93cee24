package chart

import (
	"fmt"
	"html/template"
	"math"
	"strings"
)

// Bar is a horizontal bar in a table of a page. Numbers belong into another cell: the bar has no
// text, so that it may be as wide as its cell.
type Bar struct {
	Parts []Part // from left to right
	// Low and High are the range of error, drawn over the bar. Low == High draws none.
	Low, High float64
	// Full is the value at the right edge of the cell. Bars with the same one can be compared.
	Full float64
}

// Part is a part of a bar.
type Part struct {
	Value  float64
	Colour Colour
}

// The drawing area of a bar, which is stretched to the cell.
const barWidth, barHeight = 1000, 20

// HTML returns the bar for a page. Values outside of the cell are clipped.
func (b Bar) HTML() template.HTML {
	var out strings.Builder
	fmt.Fprintf(&out, `<svg class="bar" viewBox="0 0 %d %d" preserveAspectRatio="none" aria-hidden="true">`, barWidth, barHeight)
	sum := 0.0
	for _, p := range b.Parts {
		from, to := b.at(sum), b.at(sum+p.Value)
		sum += p.Value
		if to > from {
			fmt.Fprintf(&out, `<path d="M%.4g,2H%.4gV18H%.4gZ" style="fill:%s"/>`, from, to, from, p.Colour.css())
		}
	}
	if b.Low < b.High {
		p := ink()
		fmt.Fprintf(&out, `<path d="M%.4[1]g,10H%.4[2]gM%.4[1]g,5V15M%.4[2]g,5V15" vector-effect="non-scaling-stroke" style="fill:none;stroke:var(%[3]s,%[4]s);stroke-width:1.5"/>`,
			b.at(b.Low), b.at(b.High), p.variable, hex(p.colour))
	}
	out.WriteString(`</svg>`)
	return template.HTML(out.String()) //nolint:gosec // of numbers and colours
}

// at returns where a value is, within the drawing area.
func (b Bar) at(value float64) float64 {
	if at := barWidth * value / b.Full; at > 0 { // false for NaN
		return math.Min(at, barWidth)
	}
	return 0
}

// Key returns the key of a part.
func (p Part) Key(name string) Key {
	return Key{name, sample(fmt.Sprintf(`<path d="M0,0H12V10H0Z" style="fill:%s"/>`, p.Colour.css()))}
}
