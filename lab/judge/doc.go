// Package judge tries the advice of pinfold on this machine, with programs of several kinds.
//
//	err := judge.Measure(ctx, judge.Options{Dir: dir, Size: judge.Full(), ...})
//	results, err := judge.Open(dir)
//	err = results.Markdown(w)
//
// For each [Row], a program is recorded by "pinfold sample", "pinfold advise" is asked for a limit
// with a burst, and the program runs under it in new control groups, on an idle machine and on one
// that has too much to do ([Crowd]). What is measured is the share of throttled periods, as the
// kernel counts it, over the periods of the clock, and latency from the time at which a request was
// planned.
//
// # A trial
//
// A trial is one start of a program: in a new group, whose phase of periods the kernel draws. It is
// warmed up without a limit, then the neighbours start, then the limit is set, and requests come at
// random (Poisson), whether or not earlier ones were answered. The client has real-time priority,
// because it stands for clients on other machines. Neighbours are in one group beside the
// program's, with the default weight.
//
// # Conditions are checked
//
// Before a trial the machine must be idle: the run waits, in all not longer than [Size.Patience].
// A trial during which others used CPU time, the host took some, the neighbours did not compute,
// requests failed or the client was late is disturbed ([Measured.Disturbed]). It is repeated as
// long as there is patience. A result that is disturbed even then is listed, and not judged.
//
// # What is judged
//
// A run in which the program used a quarter more or less CPU time for the same requests than when it
// was recorded had another load. It is listed, and not judged. Such runs come with the JVM, whose
// starts differ, and with whatever else uses the caches of the processor.
//
// The interval of advise is about another recording of the same length. Runs are shorter, and
// combined until they are as long; see [Results.Verdict].
//
// # Files
//
// A run writes DIR/advice.jsonl, a line for everything that is known, as soon as it is known, and
// recordings. [Measure] continues where an earlier one has ended.
package judge
