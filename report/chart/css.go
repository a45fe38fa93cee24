package chart

import _ "embed" // for the style sheet

//go:embed chart.css
var css string

// CSS returns a style sheet for pages with charts: it sets the colours, for light ground
// and for dark, whichever the reader prefers. A page takes --chart-ink, --chart-muted,
// --chart-grid and --chart-ground for itself as well.
func CSS() string { return css }
