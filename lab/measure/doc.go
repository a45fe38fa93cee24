// Package measure runs experiments about CPUs on this machine.
//
//	config, err := measure.Named("timescales")
//	err = measure.Run(ctx, config, measure.Options{Dir: dir, ...})
//	result, usage, err := measure.Open(dir)
//
// Package core/experiment says what an experiment is and what its figures mean. The experiments
// themselves are the files in configs. Package report/findings reports what was measured.
//
// # From a file to a window
//
// A configuration is parsed and checked once, into an [experiment.Config] ([Named], [Load]).
// prepare makes a lab of it: without the conditions that this machine cannot have, and with an
// [experiment.Setup] for each condition under each load, whose amounts are those of this machine.
// Setups are passed on unchanged. Each value has one job:
//
//	lab        what is prepared: the experiment, its setups, and this machine
//	launcher   starts the services of a setup
//	controller does for services what the agent does for pods
//	generator  sends the load of a setup
//	meter      measures what services use in a window
//	archive    writes what was measured, and the configuration, which [Open] reads
//	run        measures windows in rounds, each from start to stop
//
// # A window
//
// For each window, the programs of its condition are started in control groups of their own, which
// have the settings of the condition from the beginning, and removed afterwards. So no window
// depends on the one before. The load begins some time before the measurement.
//
// The load generator is this process. It has real-time priority while it measures, because it
// stands for clients on other machines: its own waits for CPUs would otherwise count as latency of
// the service.
//
// # Files
//
// A run has a directory of its own, with result.jsonl (see [experiment.Writer]), which is written
// while it is measured, and usage.parquet (see package tracefile), with the usage of each service
// every 10 ms. The groups in the recording are those of [experiment.Window.Group]. Both are kept if
// the run is ended, or killed.
package measure
