// Package golden compares what tests get with files in testdata, and rewrites these
// files instead when the variable PINFOLD_UPDATE is 1. The tests of all rooms use it,
// core's too; so it imports nothing else of this module.
//
// There are three kinds of file. A golden file is a text and nothing else (Compare). A
// scenario has commands and, between them, what they print; the player of the scenario
// returns the whole anew (Scenarios), usually by Blocks. A txtar archive has the files
// that a test begins with, and last the text that is expected (Archives).
package golden
