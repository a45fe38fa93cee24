// Package chart draws line charts as SVG, PNG and HTML.
//
//	c := chart.Chart{...}
//	err := c.SVG(w)
//
// A [Chart] contains the data: axes, series of points with their error, and reference lines. The
// package decides on the appearance, so that all charts of Pinfold look alike:
//
//   - Axes are linear or logarithmic, may point down or left, and end at round numbers outside the
//     data. An axis may have natural bounds (a probability does not exceed 1), which it does not
//     exceed.
//   - The legend is beside the drawing, where it covers no line. Labels of vertical lines are above
//     it.
//   - The colours are those of Okabe and Ito, which colour-blind people can distinguish. Series
//     should also differ in dashes or markers, for print in grey.
//   - A NaN value is unknown and interrupts the line. A point without neighbours is drawn as a dot.
//     A hollow marker is an uncertain value.
//   - Error bands and bars are clipped at the end of the axis.
//
// SVG files contain text as text, so they are small and searchable. The typeface is Liberation Sans
// or one with the same widths (Arial, Helvetica). PNG files have twice as many pixels as the SVG
// has units, and use an embedded typeface. The same chart gives the same bytes.
//
// [Chart.HTML] returns the same drawing for use in pages, without a background. Every colour is a
// CSS variable (--chart-ink, --chart-grid, --chart-blue ...) with the print colour as its default,
// so that a page may be dark.
package chart
