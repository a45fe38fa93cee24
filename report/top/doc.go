// Package top implements the live table of "pinfold top": for each cgroup, its usage against its
// limit, its throttling, and its most recent periods. It has no clock, terminal or kernel access.
// Samples and keys are the inputs ([Model.Add], [Model.Press]) and text is the output
// ([Model.Draw]).
//
// Samples are stored per group in cells of 100 ms, by the end of each sample, for ten seconds. The
// value for a window is the sum of the newest cells that cover it, divided by the time that they
// really cover. So a late sample makes the window longer, not the value larger.
//
// Throttling is shown as two shares of the last ten seconds. THR/TIMER is the share of the periods
// in which the kernel's timer ran (nr_throttled/nr_periods); a group that sleeps in between has few
// of these. THR/WALL is the share of all wall-clock periods.
//
// If the columns do not all fit, the least important ones are omitted, in the order of column.drop.
// Names keep their ends.
package top
