// Package top is a table of control groups that lives: what each uses against its limit, how
// it was throttled, and what it did in its last periods. It has no clock, no terminal and
// no kernel: samples and keys go in ([Model.Add], [Model.Press]), text comes out
// ([Model.Draw]).
//
// What was sampled is kept per group in cells of 100 ms, by the end of each sample, for ten
// seconds. A figure for a window is the sum of the newest cells that cover it, divided
// by the time that they really cover: a late sample makes the window longer, not the
// figure larger.
//
// Throttling is told as two shares of the last ten seconds. THR/TIMER is that of the periods in which the
// kernel's timer ran (nr_throttled/nr_periods): a group that sleeps in between has few of
// these. THR/WALL is that of all periods that went by.
//
// Where columns do not all fit, those that tell least are left out, in the order of
// column.drop. Names keep their ends.
package top
