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
// A window is disturbed, and not used, if other processes used more than a limit of the CPUs, or if
// a hypervisor took more. What decides is measured in the window, but is never one of the figures
// that are compared.
//
// # Comparison
//
// Each window has figures, such as a quantile of latency ([Figures]). Of each figure there is a
// value per round and condition. [Value] is their median, with an interval that contains the true
// median with a confidence of 95% (order statistics, golang.org/x/perf/benchmath). Two conditions
// are compared by the ratio of their values in each round. If the interval of that ratio contains
// 1, the experiment cannot conclude that they differ.
//
// # Scale
//
// The documents describe experiments on machines with many CPUs. [Amount] scales them: numbers of
// CPUs, threads and clients are those of the document on a machine with as many CPUs, and
// proportionally less on a smaller one.
package experiment
