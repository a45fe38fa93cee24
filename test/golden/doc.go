// Package golden compares test results with files in testdata. With PINFOLD_UPDATE=1 it rewrites
// the files instead.
//
//	golden.Compare(t, "testdata/map.txt", got)
//
// There are three kinds of file:
//
//   - A golden file contains the expected text only ([Compare]).
//   - A scenario contains commands, each followed by its output. A player runs the commands and
//     returns the whole text with the actual output ([Scenarios]), usually with [Blocks].
//   - A txtar archive contains the input files of a test and, last, the expected text ([Archives]).
//
// All packages use it in their tests, including those of core, so it imports no other package of
// this module.
package golden
