// Package lint finds what is wrong with dashboards and alert rules before somebody looks at
// them in need.
//
// Of each query, in dashboards and rules alike:
//
//   - it parses;
//   - it names only metrics that are exposed, by a file of such metrics, and only labels and
//     label values that these have (any reason may be named, there are more than the file has);
//   - counters are looked at through rate or increase, and gauges are not;
//   - an aggregation keeps only labels that there are, and histogram_quantile is given le.
//
// Of dashboards besides:
//
//   - every panel has a title, a description, a unit, queries, a place of its own in the
//     grid, an ID of its own and the data source that is chosen;
//   - every selector has the matchers of job and instance, and every range is $__rate_interval;
//   - variables are asked of the data source that is chosen, anew when the time range changes,
//     all that are named exist, and all that exist are used; the job is never all jobs.
//
// Of alerts besides: a severity, a summary, a description, and a section of the runbook.
package lint
