// Package chart draws line charts, as SVG and as PNG.
//
// A [Chart] says what there is to see: axes, series of points with what is known
// about their error, and lines at values to compare with. How it looks is decided
// here, so that all charts of Pinfold look alike:
//
//   - Axes are linear or logarithmic, may point down or left, and end at round
//     numbers outside the data. An axis may have natural bounds (a probability does
//     not exceed 1), beyond which it does not go.
//   - The legend stands beside the drawing, where it covers no line. Labels of
//     vertical lines stand above it.
//   - The colours are those of Okabe and Ito, which colour-blind people can tell apart.
//     Series should differ in dashes or markers as well, for those who print in grey.
//   - A value that is NaN is not known: the line is broken there. A point that has no
//     neighbours is drawn as a dot. A hollow marker is a value that is not certain.
//   - A band or bars of error end where the axis does.
//
// SVG files hold text as text, so they are small and the text can be searched; the
// typeface is Liberation Sans, or what has the same widths (Arial, Helvetica). PNG
// files have twice as many pixels as the SVG has units, and the typeface inside.
// The same chart gives the same bytes.
//
// [Chart.HTML] is for pages: the same drawing without a background, in which every
// colour is a CSS variable (--chart-ink, --chart-grid, --chart-blue ...) with the
// printed colour as its default, so that a page may be dark.
package chart
