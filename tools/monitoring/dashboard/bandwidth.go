package dashboard

const perContainer = "{{namespace}}/{{pod}} {{container}}"

// throttlingRow is what averages hide: what containers use in each period, and what is cut off.
func throttlingRow() row {
	return row{"Throttling", []sized{
		{24, 9, table("Throttled, while the average is low", "Containers throttled in most periods, with what they use on average. A low average says that the limit cuts bursts short: give the pod a burst policy.",
			column{"Throttled, of all periods", percent, `topk(25, sum by (instance, namespace, pod, container) (rate(pinfold_container_cpu_throttled_periods_total{@pods}[$__rate_interval]) * pinfold_container_cpu_period_seconds{@pods}) > 0)`},
			column{"Mean utilisation", percent, `sum by (instance, namespace, pod, container) (rate(pinfold_container_cpu_utilization_ratio_sum{@pods}[$__rate_interval])) / sum by (instance, namespace, pod, container) (rate(pinfold_container_cpu_utilization_ratio_count{@pods}[$__rate_interval]))`},
			column{"Limit, CPUs", cores, `sum by (instance, namespace, pod, container) (pinfold_container_cpu_limit_cores{@pods})`},
			column{"Quota now, CPUs", cores, `sum by (instance, namespace, pod, container) (pinfold_container_cpu_quota_cores{@pods})`},
			column{"Burst", seconds, `sum by (instance, namespace, pod, container) (pinfold_container_cpu_burst_seconds{@pods})`})},

		{12, 9, heatmap("Utilisation of each period", "CPU time used in a sample, by default of one period, as a part of the limit: how many samples. Above 100% it came out of burst or a raised quota.", percent,
			`sum by (le) (increase(pinfold_container_cpu_utilization_ratio_bucket{@pods}[$__rate_interval]))`)},
		{12, 9, lines("Utilisation, quantiles", "The mean is what other dashboards show. The distance to p99 is what bursts need.", percent,
			query{"mean", `sum(rate(pinfold_container_cpu_utilization_ratio_sum{@pods}[$__rate_interval])) / sum(rate(pinfold_container_cpu_utilization_ratio_count{@pods}[$__rate_interval]))`},
			query{"median", `histogram_quantile(0.5, sum by (le) (rate(pinfold_container_cpu_utilization_ratio_bucket{@pods}[$__rate_interval])))`},
			query{"p95", `histogram_quantile(0.95, sum by (le) (rate(pinfold_container_cpu_utilization_ratio_bucket{@pods}[$__rate_interval])))`},
			query{"p99", `histogram_quantile(0.99, sum by (le) (rate(pinfold_container_cpu_utilization_ratio_bucket{@pods}[$__rate_interval])))`})},

		{8, 8, lines("Throttled, of all periods", "The share of time in whose periods the container was throttled: what its users feel.", percent,
			query{perContainer, `sum by (namespace, pod, container) (rate(pinfold_container_cpu_throttled_periods_total{@pods}[$__rate_interval]) * pinfold_container_cpu_period_seconds{@pods})`})},
		{8, 8, lines("Throttled, of timer periods", "The kernel's own ratio, of those periods only in which its timer ran: higher, the idler the container is.", percent,
			query{perContainer, `sum by (namespace, pod, container) (rate(pinfold_container_cpu_throttled_periods_total{@pods}[$__rate_interval])) / sum by (namespace, pod, container) (rate(pinfold_container_cpu_periods_total{@pods}[$__rate_interval]))`})},
		{8, 8, lines("Throttled time", "Seconds throttled in a second, summed over CPUs. Kernels since 6.18 count it per task.", cores,
			query{perContainer, `sum by (namespace, pod, container) (rate(pinfold_container_cpu_throttled_seconds_total{@pods}[$__rate_interval]))`})},
	}}
}

// burstRow is what is done about it.
func burstRow() row {
	return row{"Burst and raised quotas", []sized{
		{8, 8, lines("Periods with burst, of timer periods", "How often the kernel's burst carried a container over its quota.", percent,
			query{perContainer, `sum by (namespace, pod, container) (rate(pinfold_container_cpu_burst_periods_total{@pods}[$__rate_interval])) / sum by (namespace, pod, container) (rate(pinfold_container_cpu_periods_total{@pods}[$__rate_interval]))`})},
		{8, 8, lines("CPU time out of burst", "CPUs used beyond quota, out of the kernel's burst.", cores,
			query{perContainer, `sum by (namespace, pod, container) (rate(pinfold_container_cpu_burst_used_seconds_total{@pods}[$__rate_interval]))`})},
		{8, 8, lines("Burst allowed, of a period's quota", "What can be saved up: 0% without burst, 100% is the most that the kernel takes.", percent,
			query{perContainer, `sum by (namespace, pod, container) (pinfold_container_cpu_burst_seconds{@pods} / (pinfold_container_cpu_quota_cores{@pods} * pinfold_container_cpu_period_seconds{@pods}))`})},

		{8, 8, lines("Quota, of the limit", "100% is the limit. Above, the quota is raised for a while out of what was not used before.", percent,
			query{perContainer, `sum by (namespace, pod, container) (pinfold_container_cpu_quota_cores{@pods} / pinfold_container_cpu_limit_cores{@pods})`})},
		{8, 8, lines("Quotas raised, by reason", "throttled: the container was; near-quota: it used nearly all that it may.", count,
			query{"{{reason}}", `sum by (reason) (increase(pinfold_container_cpu_quota_raises_total{@pods}[$__rate_interval]))`})},
		{8, 8, lines("Quotas lowered, by reason", "idle: no use any more; spent: the savings are; shortage: others need the CPUs; overruled: somebody else wrote; unseen: no samples; changed: limit or policy.", count,
			query{"{{reason}}", `sum by (reason) (increase(pinfold_container_cpu_quota_lowers_total{@pods}[$__rate_interval]))`})},

		{24, 6, lines("Raised for", "For how long quotas that are raised now have been.", seconds,
			query{perContainer, `time() - sum by (namespace, pod, container) (pinfold_container_cpu_quota_raised_since_timestamp_seconds{@pods})`})},
	}}
}
