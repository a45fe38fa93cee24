// Package lint checks Grafana dashboards and Prometheus alert rules for mistakes.
//
// For each query, in dashboards and rules, it checks that
//
//   - the query parses;
//   - it names only metrics that are exposed, according to a file of metrics, and only labels and
//     label values that these have (any reason may be named, because the file does not list all);
//   - counters are used through rate or increase, and gauges are not;
//   - an aggregation keeps only existing labels, and histogram_quantile gets le.
//
// For dashboards it also checks that
//
//   - every panel has a title, a description, a unit, queries, its own place in the grid, its own
//     ID and the selected data source;
//   - every selector has the matchers of job and instance, and every range is $__rate_interval;
//   - variables query the selected data source and are refreshed when the time range changes, all
//     variables that are named exist, and all that exist are used; the job is never all jobs.
//
// For alerts it also checks that each has a severity, a summary, a description, and a section in
// the runbook.
package lint
