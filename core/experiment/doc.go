// Package experiment describes experiments about CPUs, and compares what was measured in them.
//
//	setups, err := config.Setups(cpus)    // what to run in the windows of a round
//	...
//	result, err := experiment.Read(file)  // what was measured
//	comparison := result.Compare(answer)  // what it says
//
// # Windows
//
// A [Config] has conditions and loads. A window is a short measurement of one condition under one
// load. Each round has a window of each, in random order. Other activity of the machine changes
// from minute to minute, so it affects all windows of a round alike.
//
// A window is disturbed, and not used, if other processes used more than a limit of the CPUs, if a
// hypervisor took more, if the load generator was too busy, if the other services hardly ran
// ([Config.Disturbed]), or if a request was not answered in time. Other latencies do not decide.
// [Result.WithDisturbed] shows what leaving windows out has changed.
//
// # Comparison
//
// Each window has figures ([Figures]). The [Value] of a condition is that of all its undisturbed
// windows together: a quantile of the latencies of all requests, or the mean of what each window
// has. Two conditions are compared by the ratio of their values from the rounds that have both.
// Intervals and tests have one method: rounds are drawn with replacement (bootstrap, in blocks if
// there are many), for both conditions the same, and the deviation of the estimates from them is
// that of Student's t distribution, with fewer degrees of freedom if few rounds decide. Its coverage
// is tested by simulation. If the interval of a ratio contains 1, the experiment cannot conclude that
// the conditions differ. A report with many comparisons needs a smaller p for each ([Level]).
//
// A quantile that fewer than [MinBeyond] requests exceed, or requests of fewer than [MinRounds]
// rounds, is not given.
//
// # Scale
//
// The documents describe experiments on machines with many CPUs. [Amount] scales them: numbers of
// CPUs, threads and clients are those of the document on a machine with as many CPUs, and
// proportionally less on a smaller one.
package experiment
