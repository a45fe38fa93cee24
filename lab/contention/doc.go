// Package contention stages cases in which threads wait for CPUs, and compares what package runqueue
// samples of them with a trace of every switch (package schedtrace), and with what the kernel says
// (cpu.pressure).
//
//	results, err := contention.Measure(ctx, contention.Options{Cases: 200, ...})
//	err = results.Markdown(w)
//
// # A case
//
// A case is drawn from its number: its [Kind], and the numbers of threads, limits, weights and times
// of computing and sleeping. Its first program is the victim. All programs but a few run on one CPU, which
// others may use, too: what they take is in both measurements.
//
// # What is compared
//
// Of the victim, for the same time: for how long at least one thread waited behind others, and behind
// its own threads, as a share of the time; and behind which group it waited longest, its culprit. A case in
// which the trace has less than 2% behind others has no culprit. Of two groups that are within a tenth of
// each other, both are right.
//
// A case of which the trace has lost events is repeated, twice at most.
package contention
