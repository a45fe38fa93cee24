package dashboard

// nodeRow is what an SRE looks at first: is everything enforced, and how well are CPUs placed?
func nodeRow() row {
	return row{"Nodes", []sized{
		{4, 4, number("Agents not reached", "Agents that Prometheus cannot scrape. What they have set stays in force.",
			`sum(1 - up{@node})`)},
		{4, 4, number("Agents that hold", "Agents that change nothing because they know too little: see the node's condition PinfoldCPUBinding.",
			`sum(pinfold_holding{@node})`)},
		{4, 4, number("Groups not as they should be", "Control groups whose settings the kernel refused in the last round.",
			`sum(pinfold_failed_groups{@node})`)},
		{4, 4, number("Pods that lost their CPUs", "Two pods claimed one CPU: the one bound earlier has it, these are in the shared pool.",
			`sum(pinfold_conflicts{@node})`)},
		{4, 4, number("Problems", "Everything that cannot be done as it was asked for; below by reason.",
			`sum(pinfold_problems{@node}) or vector(0)`)},
		{4, 4, number("Nodes without NRI", "Where the container runtime does not ask, containers get their CPUs a little after they start.",
			`sum(1 - pinfold_runtime_connected{@node})`)},

		{8, 8, areas("CPUs", "Online CPUs that are exclusive to one pod each, and those that all others share.", count,
			query{"{{kind}}", `sum by (kind) (pinfold_cpus{@node})`})},
		{8, 8, areas("Containers by their CPUs", "Running containers with exclusive CPUs, with a core set (static-burst), in the shared pool, and unbound.", count,
			query{"{{home}}", `sum by (home) (pinfold_containers{@node})`})},
		{8, 8, lines("Placement of exclusive CPUs", "Per container with exclusive CPUs: NUMA nodes and last-level caches it uses (1 is best), cores of which it has some threads only (0 is best).", count,
			query{"NUMA nodes", `sum(pinfold_exclusive_numa_nodes{@node}) / sum(pinfold_containers{@node, home="exclusive"})`},
			query{"LLCs", `sum(pinfold_exclusive_llcs{@node}) / sum(pinfold_containers{@node, home="exclusive"})`},
			query{"split cores", `sum(pinfold_exclusive_split_cores{@node}) / sum(pinfold_containers{@node, home="exclusive"})`})},

		{8, 8, lines("Problems by reason", "The reasons are those of events and of the node's condition; docs/agent.md says what to do about each.", count,
			query{"{{instance}} {{reason}}", `sum by (instance, reason) (pinfold_problems{@node})`})},
		{8, 8, lines("Settings changed by somebody else", "How often somebody else changed what the agent sets, and whether it was put back or left to them.", count,
			query{"{{instance}} {{setting}}, put back", `sum by (instance, setting) (increase(pinfold_foreign_writes_undone_total{@node}[$__rate_interval])) > 0`},
			query{"{{instance}} {{setting}}, left", `sum by (instance, setting) (increase(pinfold_foreign_writes_left_total{@node}[$__rate_interval])) > 0`},
			query{"{{instance}} another NRI plugin", `sum by (instance) (increase(pinfold_nri_conflicts_total{@node}[$__rate_interval])) > 0`})},
		{8, 8, lines("Writes", "Writes to files of control groups. When nothing differs nothing is written.", perSec,
			query{"{{file}}", `sum by (file) (rate(pinfold_cgroup_writes_total{@node, result="done"}[$__rate_interval]))`},
			query{"{{file}}, refused", `sum by (file) (rate(pinfold_cgroup_writes_total{@node, result="refused"}[$__rate_interval])) > 0`})},

		{12, 8, lines("Duration of rounds", "How long a round takes, in which all control groups are looked at.", seconds,
			query{"median", `histogram_quantile(0.5, sum by (le) (rate(pinfold_reconcile_duration_seconds_bucket{@node}[$__rate_interval])))`},
			query{"p99", `histogram_quantile(0.99, sum by (le) (rate(pinfold_reconcile_duration_seconds_bucket{@node}[$__rate_interval])))`})},
		{12, 8, lines("Rounds", "At least one each 15 seconds (--period), and one whenever pods change; at 0 nothing is enforced.", perSec,
			query{"{{instance}}", `sum by (instance) (rate(pinfold_reconciles_total{@node}[$__rate_interval]))`})},
	}}
}
