package dashboard

const perContainer = "{{namespace}}/{{pod}} {{container}}"

// nodeRow answers an SRE's first questions: is everything enforced, and how well are CPUs placed?
func nodeRow() row {
	return row{"Nodes", []sized{
		{4, 4, number("Agents not reached", "Agents that Prometheus cannot scrape. Their settings remain in force.",
			`sum(1 - up{@node})`)},
		{4, 4, number("Agents that hold", "Agents that change nothing because they lack information: see the node's condition PinfoldCPUBinding.",
			`sum(pinfold_holding{@node})`)},
		{4, 4, number("Groups with wrong settings", "Cgroups whose settings the kernel rejected in the last round.",
			`sum(pinfold_failed_groups{@node})`)},
		{4, 4, number("Pods that lost their CPUs", "Two pods claim the same CPU: the one bound earlier has it, these are in the shared pool.",
			`sum(pinfold_conflicts{@node})`)},
		{4, 4, number("Problems", "What is wrong with nodes, and requests of pods that the agent cannot fulfil; by reason below.",
			`(sum(pinfold_problems{@node}) or vector(0)) + (sum(pinfold_pod_warnings{@node}) or vector(0))`)},
		{4, 4, number("Nodes without NRI", "Without NRI, containers get their CPUs shortly after they start.",
			`sum(1 - pinfold_runtime_connected{@node})`)},

		{8, 8, areas("CPUs", "Online CPUs that are exclusive to one pod each, and shared ones.", count,
			query{"{{kind}}", `sum by (kind) (pinfold_cpus{@node})`})},
		{8, 8, areas("Containers by kind of CPUs", "Running containers with exclusive CPUs, with a core set (static-burst), in the shared pool, and unbound.", count,
			query{"{{home}}", `sum by (home) (pinfold_containers{@node})`})},
		{8, 8, lines("Placement of exclusive CPUs", "Per container with exclusive CPUs: NUMA nodes and last-level caches it uses (1 is best), cores of which it has only some threads (0 is best).", count,
			query{"NUMA nodes", `sum(pinfold_exclusive_numa_nodes{@node}) / sum(pinfold_containers{@node, home="exclusive"})`},
			query{"LLCs", `sum(pinfold_exclusive_llcs{@node}) / sum(pinfold_containers{@node, home="exclusive"})`},
			query{"split cores", `sum(pinfold_exclusive_split_cores{@node}) / sum(pinfold_containers{@node, home="exclusive"})`})},

		{8, 8, lines("Problems by reason", "The reasons are the same as in events and in the node's condition; docs/agent.md says what to do about each.", count,
			query{"{{instance}} {{reason}}", `sum by (instance, reason) (pinfold_problems{@node})`},
			query{"{{instance}} {{namespace}}/{{pod}} {{reason}}", `sum by (instance, namespace, pod, reason) (pinfold_pod_warnings{@node})`})},
		{8, 8, lines("Settings changed by other programs", "How often another program changed settings of the agent, and whether the agent restored them.", count,
			query{"{{instance}} {{setting}}, restored", `sum by (instance, setting) (increase(pinfold_foreign_writes_undone_total{@node}[$__rate_interval])) > 0`},
			query{"{{instance}} {{setting}}, not restored", `sum by (instance, setting) (increase(pinfold_foreign_writes_left_total{@node}[$__rate_interval])) > 0`},
			query{"{{instance}} another NRI plugin", `sum by (instance) (increase(pinfold_nri_conflicts_total{@node}[$__rate_interval])) > 0`})},
		{8, 8, lines("Writes", "Writes to files of cgroups. The agent writes only settings that differ.", perSec,
			query{"{{file}}", `sum by (file) (rate(pinfold_cgroup_writes_total{@node, result="done"}[$__rate_interval]))`},
			query{"{{file}}, rejected", `sum by (file) (rate(pinfold_cgroup_writes_total{@node, result="refused"}[$__rate_interval])) > 0`})},

		{12, 8, lines("Duration of rounds", "The duration of a round, in which the agent checks all cgroups.", seconds,
			query{"median", `histogram_quantile(0.5, sum by (le) (rate(pinfold_reconcile_duration_seconds_bucket{@node}[$__rate_interval])))`},
			query{"p99", `histogram_quantile(0.99, sum by (le) (rate(pinfold_reconcile_duration_seconds_bucket{@node}[$__rate_interval])))`})},
		{12, 8, lines("Rounds", "At least one per 15 seconds (--period), and one whenever pods change; at 0 nothing is enforced.", perSec,
			query{"{{instance}}", `sum by (instance) (rate(pinfold_reconciles_total{@node}[$__rate_interval]))`})},
	}}
}

// throttlingRow shows what averages hide: the usage in each period, and throttling.
func throttlingRow() row {
	return row{"Throttling", []sized{
		{24, 9, table("Throttled despite low usage", "Containers throttled in most periods, with their average usage. A low average means that the limit cuts off bursts: give the pod a burst policy.",
			column{"Throttled, of all periods", percent, `topk(25, sum by (instance, namespace, pod, container) (rate(pinfold_container_cpu_throttled_periods_total{@pods}[$__rate_interval]) * pinfold_container_cpu_period_seconds{@pods}) > 0)`},
			column{"Mean utilisation", percent, `sum by (instance, namespace, pod, container) (rate(pinfold_container_cpu_utilization_ratio_sum{@pods}[$__rate_interval])) / sum by (instance, namespace, pod, container) (rate(pinfold_container_cpu_utilization_ratio_count{@pods}[$__rate_interval]))`},
			column{"Limit, CPUs", cores, `sum by (instance, namespace, pod, container) (pinfold_container_cpu_limit_cores{@pods})`},
			column{"Quota now, CPUs", cores, `sum by (instance, namespace, pod, container) (pinfold_container_cpu_quota_cores{@pods})`},
			column{"Burst", seconds, `sum by (instance, namespace, pod, container) (pinfold_container_cpu_burst_seconds{@pods})`})},

		{12, 9, heatmap("Utilisation of each period", "Number of samples by CPU time used, relative to the limit. A sample is one period by default. Values above 100% come from burst or a raised quota.", percent,
			`sum by (le) (increase(pinfold_container_cpu_utilization_ratio_bucket{@pods}[$__rate_interval]))`)},
		{12, 9, lines("Utilisation, quantiles", "Other dashboards show the mean. The distance to p99 is what bursts need.", percent,
			query{"mean", `sum(rate(pinfold_container_cpu_utilization_ratio_sum{@pods}[$__rate_interval])) / sum(rate(pinfold_container_cpu_utilization_ratio_count{@pods}[$__rate_interval]))`},
			query{"median", `histogram_quantile(0.5, sum by (le) (rate(pinfold_container_cpu_utilization_ratio_bucket{@pods}[$__rate_interval])))`},
			query{"p95", `histogram_quantile(0.95, sum by (le) (rate(pinfold_container_cpu_utilization_ratio_bucket{@pods}[$__rate_interval])))`},
			query{"p99", `histogram_quantile(0.99, sum by (le) (rate(pinfold_container_cpu_utilization_ratio_bucket{@pods}[$__rate_interval])))`})},

		{8, 8, lines("Throttled, of all periods", "The share of all periods in which the container was throttled: what its users notice.", percent,
			query{perContainer, `sum by (namespace, pod, container) (rate(pinfold_container_cpu_throttled_periods_total{@pods}[$__rate_interval]) * pinfold_container_cpu_period_seconds{@pods})`})},
		{8, 8, lines("Throttled, of timer periods", "The kernel's own ratio, relative to the periods in which its timer ran. It is higher for containers that are often idle.", percent,
			query{perContainer, `sum by (namespace, pod, container) (rate(pinfold_container_cpu_throttled_periods_total{@pods}[$__rate_interval])) / sum by (namespace, pod, container) (rate(pinfold_container_cpu_periods_total{@pods}[$__rate_interval]))`})},
		{8, 8, lines("Throttled time", "Throttled seconds per second, summed over CPUs. Since kernel 6.18 it is counted per task.", cores,
			query{perContainer, `sum by (namespace, pod, container) (rate(pinfold_container_cpu_throttled_seconds_total{@pods}[$__rate_interval]))`})},

		{24, 8, lines("Waiting for CPU time", "The share of time in which at least one thread of the container waited: for its quota, or because others used its CPUs. Only on nodes with cgroup version 2.", percent,
			query{perContainer, `sum by (namespace, pod, container) (rate(pinfold_container_cpu_pressure_seconds_total{@pods}[$__rate_interval]))`})},
	}}
}

// burstRow shows burst and raised quotas.
func burstRow() row {
	return row{"Burst and raised quotas", []sized{
		{8, 8, lines("Periods with burst, of timer periods", "How often a container exceeded its quota by the kernel's burst.", percent,
			query{perContainer, `sum by (namespace, pod, container) (rate(pinfold_container_cpu_burst_periods_total{@pods}[$__rate_interval])) / sum by (namespace, pod, container) (rate(pinfold_container_cpu_periods_total{@pods}[$__rate_interval]))`})},
		{8, 8, lines("CPU time from burst", "CPUs used beyond quota, from the kernel's burst.", cores,
			query{perContainer, `sum by (namespace, pod, container) (rate(pinfold_container_cpu_burst_used_seconds_total{@pods}[$__rate_interval]))`})},
		{8, 8, lines("Burst, of a period's quota", "How much unused quota can be saved up: 0% without burst, 100% is the kernel's maximum.", percent,
			query{perContainer, `sum by (namespace, pod, container) (pinfold_container_cpu_burst_seconds{@pods} / (pinfold_container_cpu_quota_cores{@pods} * pinfold_container_cpu_period_seconds{@pods}))`})},

		{8, 8, lines("Quota, of the limit", "100% is the limit. Higher values are quotas that are temporarily raised, from earlier unused time.", percent,
			query{perContainer, `sum by (namespace, pod, container) (pinfold_container_cpu_quota_cores{@pods} / pinfold_container_cpu_limit_cores{@pods})`})},
		{8, 8, lines("Quotas raised, by reason", "throttled: the container was throttled; near-quota: it used almost its quota.", count,
			query{"{{reason}}", `sum by (reason) (increase(pinfold_container_cpu_quota_raises_total{@pods}[$__rate_interval]))`})},
		{8, 8, lines("Quotas lowered, by reason", "idle: the container no longer needs it; spent: the savings are used up; shortage: others need the CPUs; overruled: another program wrote the quota; unseen: no samples; changed: a new limit or policy.", count,
			query{"{{reason}}", `sum by (reason) (increase(pinfold_container_cpu_quota_lowers_total{@pods}[$__rate_interval]))`})},

		{24, 6, lines("Raised for", "How long ago the currently raised quotas were raised.", seconds,
			query{perContainer, `time() - sum by (namespace, pod, container) (pinfold_container_cpu_quota_raised_since_timestamp_seconds{@pods})`})},
	}}
}

// batchRow shows what batch pods may use, and what they use.
func batchRow() row {
	return row{"Batch pods", []sized{
		{12, 8, lines("CPU time of batch pods", "What batch pods may use together (--batch-percent), and what the pods of QoS class BestEffort use.", cores,
			query{"{{instance}}, budget", `pinfold_batch_budget_cpus{@node}`},
			query{"{{instance}}, used", `sum by (instance) (rate(pinfold_batch_cpu_seconds_total{@node}[$__rate_interval]))`})},
		{12, 8, lines("Waiting of online pods", "The longest time that a container of class LS waited for CPUs in 100 ms; exists only with --batch-objective.", seconds,
			query{"{{instance}}, median", `histogram_quantile(0.5, sum by (instance, le) (rate(pinfold_online_wait_seconds_bucket{@node}[$__rate_interval])))`},
			query{"{{instance}}, p99", `histogram_quantile(0.99, sum by (instance, le) (rate(pinfold_online_wait_seconds_bucket{@node}[$__rate_interval])))`})},
		{12, 8, lines("Share of the CPUs for all work", "--batch-percent, or less while online pods wait longer than --batch-objective.", percent,
			query{"{{instance}}", `pinfold_batch_threshold_ratio{@node}`})},
		{12, 8, lines("Capacity for batch pods", "What nodes offer to requests for pinfold.dev/batch-cpu; running pods' requests are offered in any case.", cores,
			query{"{{instance}}", `pinfold_batch_capacity_cpus{@node}`})},
	}}
}

// delayRow shows how long threads are delayed, each time, and what it costs to know that.
func delayRow() row {
	return row{"Delays (agent.tracePercent)", []sized{
		{8, 8, lines("Waiting for a CPU, p99", "How long a thread that was ready to run waited, without throttling.", seconds,
			query{perContainer, `histogram_quantile(0.99, sum by (namespace, pod, container, le) (rate(pinfold_container_cpu_run_delay_seconds_bucket{@pods}[$__rate_interval])))`})},
		{8, 8, lines("Throttled, p99", "How long a thread that was ready to run was throttled, of the times that it was.", seconds,
			query{perContainer, `histogram_quantile(0.99, sum by (namespace, pod, container, le) (rate(pinfold_container_cpu_throttle_delay_seconds_bucket{@pods}[$__rate_interval])))`})},
		{8, 8, lines("CPU time of tracing", "The share of one CPU that tracing uses, in the kernel and in the agent.", percent,
			query{"{{instance}}, {{where}}", `sum by (instance, where) (rate(pinfold_trace_cpu_seconds_total{@node}[$__rate_interval]))`})},
	}}
}

// samplerRow shows the cost of sampling and whether it is reliable.
func samplerRow() row {
	return row{"Sampler", []sized{
		{8, 8, lines("CPU time of agents", "The share of one CPU used by sampling, and by the whole agent.", percent,
			query{"{{instance}}, sampling", `sum by (instance) (rate(pinfold_sampler_cpu_seconds_total{@node}[$__rate_interval]))`},
			query{"{{instance}}, all", `sum by (instance) (rate(process_cpu_seconds_total{@node}[$__rate_interval]))`})},
		{8, 8, lines("Samples", "Samples per second; containers are sampled once in each of their periods.", perSec,
			query{"{{instance}}", `sum by (instance) (rate(pinfold_sampler_samples_total{@node}[$__rate_interval]))`})},
		{8, 8, lines("Containers sampled", "Containers with a limit.", count,
			query{"{{instance}}", `sum by (instance) (pinfold_sampler_groups{@node})`})},

		{8, 8, lines("Late samples", "The share of samples that cover at least a quarter more time than planned.", percent,
			query{"{{instance}}", `sum by (instance) (rate(pinfold_sampler_late_samples_total{@node}[$__rate_interval])) / sum by (instance) (rate(pinfold_sampler_samples_total{@node}[$__rate_interval]))`})},
		{8, 8, lines("Missing samples", "Samples that were not taken in time, and samples dropped because counters went backwards.", perSec,
			query{"{{instance}}, missed", `sum by (instance) (rate(pinfold_sampler_missed_total{@node}[$__rate_interval]))`},
			query{"{{instance}}, counters backwards", `sum by (instance) (rate(pinfold_sampler_gaps_total{@node}[$__rate_interval]))`})},
		{8, 8, lines("Wake-up delay", "How late the sampler wakes up: the median, p99 and the maximum since the agent started.", seconds,
			query{"{{instance}} p{{percentile}}", `max by (instance, percentile) (pinfold_sampler_wake_delay_seconds{@node})`})},
	}}
}
