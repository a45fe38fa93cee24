// Package findings reports what experiments have measured (package lab/experiment):
//
//	err := findings.Page(w, runs, "pinfold-lab 1.0") // one HTML page, of one or several runs
//	err := findings.Markdown(w, runs)                // for documents
//	err := findings.Summary(w, run)                  // for a terminal
//
// A [Run] is a result and, for plots of CPU usage, the recording that was made at the same time.
//
// # Content
//
// All formats have the same findings: a table of results, all figures, and what the run says about
// itself: the load generator, the disturbed windows, the environment and the configuration. A page
// also has plots of latency and usage, bars of the main figures, and where the time of threads went.
//
// A result is a row: figure, condition, published, measured, interval, verdict. Values, changes and their
// intervals of 95% confidence are those of [experiment.Comparison]. A verdict claims a difference only if
// the interval of the ratio excludes 1, and if that is significant among all answers of the report
// ([experiment.CompareAll]). It compares with a published figure by that interval too, never by the estimate
// alone. Without a difference it says that the two are equal within the margin, or how many more rounds would
// decide.
//
// # Pages
//
// A page loads nothing and runs no script. It uses the colours of the reader's theme, and can be
// printed. Tables that are wider than the window scroll in their own box. Curves have at most a few
// hundred points each, so that a page of ten runs has less than 3 MB.
//
// A run that [experiment.Config.Check] rejects, or whose figures are not numbers, is an error. A
// latency histogram or a recording that is damaged is left out, and a remark on the page says so.
package findings
