// Package measure runs experiments about CPUs on this machine.
//
//	config, err := experiment.Named("timescales")
//	dir, err := experiment.Run(ctx, config, experiment.Options{...})
//	result, usage, err := experiment.Open(dir)
//
// Package core/experiment says what an experiment is and what its figures mean. The experiments
// themselves are the files in configs.
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
// every 10 ms. The groups in the recording are called /CONDITION/LOAD/SERVICE. Both are kept if the
// run is ended, or killed.
package measure
