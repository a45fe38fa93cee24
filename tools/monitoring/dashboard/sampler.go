package dashboard

// samplerRow is what measuring costs, and whether it can be trusted.
func samplerRow() row {
	return row{"Sampler", []sized{
		{8, 8, lines("CPU time of agents", "The share of one CPU that sampling takes, and all that the agent takes.", percent,
			query{"{{instance}}, sampling", `sum by (instance) (rate(pinfold_sampler_cpu_seconds_total{@node}[$__rate_interval]))`},
			query{"{{instance}}, all", `sum by (instance) (rate(process_cpu_seconds_total{@node}[$__rate_interval]))`})},
		{8, 8, lines("Samples", "Taken in a second; containers are sampled once in each of their periods.", perSec,
			query{"{{instance}}", `sum by (instance) (rate(pinfold_sampler_samples_total{@node}[$__rate_interval]))`})},
		{8, 8, lines("Containers sampled", "Those that have a limit.", count,
			query{"{{instance}}", `sum by (instance) (pinfold_sampler_groups{@node})`})},

		{8, 8, lines("Late samples", "The share of samples that cover a quarter more time than they should.", percent,
			query{"{{instance}}", `sum by (instance) (rate(pinfold_sampler_late_samples_total{@node}[$__rate_interval])) / sum by (instance) (rate(pinfold_sampler_samples_total{@node}[$__rate_interval]))`})},
		{8, 8, lines("Left out", "Moments at which samples should have been taken and were not, and samples dropped since counters went backwards.", perSec,
			query{"{{instance}}, missed", `sum by (instance) (rate(pinfold_sampler_missed_total{@node}[$__rate_interval]))`},
			query{"{{instance}}, counters backwards", `sum by (instance) (rate(pinfold_sampler_gaps_total{@node}[$__rate_interval]))`})},
		{8, 8, lines("Wakes up late by", "How late the sampler wakes up: the median, p99 and the worst since the agent has started.", seconds,
			query{"{{instance}} p{{percentile}}", `max by (instance, percentile) (pinfold_sampler_wake_delay_seconds{@node})`})},
	}}
}
