// Package kernel compares models of core with the kernel that runs.
//
// # Bandwidth
//
// A load generator, this test's own program started anew, has one thread on each CPU,
// in a control group of its own. It plays scripts: at this time, use so much CPU time.
// What it did (when a thread began, what its CPU clock says it used) goes into
// bandwidth.Group, and what that says is compared with the difference of the group's
// cpu.stat over the script. First it finds out when the group's periods begin: with a
// trickle of use the timer runs, and each change of nr_periods lies between two reads.
//
// Not everything is known, and what is not is drawn, 201 times: when ticks are (a
// thread that reads its CPU clock is also looked at in between), when in its bursts a
// thread waited for a CPU that somebody else had, in which it used the time that the
// group's usage is beyond what it measured, and when within a write the kernel
// took it. The kernel's nr_throttled and nr_periods must lie within what the model says
// in these 201 cases, burst_time up to a slice of it, usage up to 1 ms.
// The group has the highest weight there is, so that others wait for it rather than the
// reverse. Its threads' waits are known in sum: wall time less CPU time less throttled_time.
//
// A run is dropped when its threads waited for others during more than a tenth of it;
// when one used 1 ms more than it was to, or the group half a millisecond more per burst,
// for then the machine stood still, as virtual ones do; or when nr_throttled comes out of
// the model with a range of more than 2. When too many were starved, the test is skipped,
// saying so; but it fails when that happens while the rest of the machine uses less than a
// tenth of its CPUs, for then it is the generator's fault, and when the range is too wide
// too often. Wrong models were tried (a write that does not refill, less burst, a timer that
// does not stop, slices that are not given back): each fails.
//
// Seen on 2 virtual CPUs, Linux 6.18, version 1 of control groups, other work on 0.5 to 1.9
// of them all the time, 2026-11-20. The probes of 30, 60 and 90 ms: exactly as the model
// says, also burst_time (60 and 30 ms to the nanosecond). 80 random loads of 20 periods at
// drawn quota and burst (1,819 periods by the timer, of which 550 throttled; 35 more
// runs were dropped): nr_throttled within the range in all 80, which was one number in 41,
// two in 19, three in 20; the median in 69, one beside it in 11. burst_time differs from the
// median by 0.7 ms (half of the runs) to 5.8 ms (at most), in sum by 0.2% of 2.3 s.
//
// Version 2 was tried by hand on Linux 7.2 in an emulated machine. On a busy host its CPUs
// stand still too often for a test; the kernel's figures were in or beside the range.
package kernel
