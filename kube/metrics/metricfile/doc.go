// Package metricfile answers the queries of package metrics from files, with the query engine of
// Prometheus, for those who cannot reach a server.
//
//	store := metricfile.New(metrics.Metrics())
//	err := store.Read(ctx, in)    // once for each file
//	options, err := store.Options(metrics.Options{})
//	plan, err := metrics.NewPlan(ctx, store, options)
//
// # Files
//
// [Is] recognises two kinds. The first is JSON with results of range queries: answers of the API (one,
// or several after each other), their field data, or lists of series as promtool prints them. The
// second is what "promtool tsdb dump" prints: a line of labels, value and milliseconds for each
// sample. Native histograms in both are left out, and counted.
//
// Series may be in several files, in pieces that overlap. Of two samples of the same time, one
// counts. A sample that is NaN or infinite, such as the marker of a series that ended, is left out.
//
// # Memory
//
// Files are read as streams. Samples are compressed as in Prometheus, to some 2 to 10 bytes, and only
// the series of the metrics that are wanted are kept, up to [MaxMemory].
package metricfile
