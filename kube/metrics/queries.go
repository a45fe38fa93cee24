package metrics

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// figure is what a query finds for each container and slice.
type figure int

// The figures.
const (
	seen figure = iota
	mean
	highest
	periods
	throttled
	throttledSeconds
	limit     // at the end of the slice
	limitLow  // in the slice
	limitHigh // in the slice
	request
	requested // at the end of the slice
	specLimit
	specPeriod
	last    // time of a sample
	runs    // control groups
	figures // their number
)

// container are the labels that name a container.
const container = "namespace, pod, container"

// selector selects the series of containers in namespaces, or in those of the options.
func (p *Plan) selector(metric string, namespaces []string, more ...string) string {
	if namespaces == nil {
		namespaces = p.Options.Namespaces
	}
	if len(namespaces) > 0 {
		var quoted []string
		for _, n := range namespaces {
			quoted = append(quoted, regexp.QuoteMeta(n))
		}
		more = append(more, fmt.Sprintf("namespace=~%q", strings.Join(quoted, "|")))
	}
	if p.Options.Match != "" {
		more = append(more, p.Options.Match)
	}
	return p.name(metric) + "{" + strings.Join(more, ",") + "}"
}

// named are the matchers of containers: sums of pods and of their sandboxes have none of these names.
const named = `container!="",container!="POD"`

// clusterLabels are the labels that name clusters where one server has several.
func clusterLabels() []string {
	return []string{"cluster", "cluster_id", "cluster_name", "k8s_cluster", "k8s_cluster_name", "kubernetes_cluster"}
}

// CountQuery returns the query for the number of containers of each namespace, by cluster.
func (p *Plan) CountQuery() string {
	clusters := strings.Join(clusterLabels(), ", ")
	return fmt.Sprintf("count by (namespace, %s) (present_over_time((group by (%[2]s, %[1]s) (%[3]s))[%[4]ds:%[5]ds]))", clusters, container, p.selector(p.Options.Counter, nil, named),
		int(p.Slice.Seconds()), int(p.Window.Seconds()))
}

// byGroup is an expression over the series of control groups. The kubelet has another metric of the
// same name, without the label id, in /metrics/resource: it counts where there is no other.
func byGroup(expression func(id string) string) string {
	return expression(`id!=""`) + " or " + expression(`id=""`)
}

// of makes one rate for each container of those of its control groups and of their CPUs.
func (p *Plan) of(metric string, b Batch) string {
	return byGroup(func(id string) string {
		return fmt.Sprintf("sum by (%s) (max by (%[1]s, id, name, cpu) (rate(%s[%ds])))", container, p.selector(metric, b.Namespaces, named, id), int(p.over.Seconds()))
	})
}

// Queries returns all queries of a batch.
func (p *Plan) Queries(b Batch) []string {
	f := p.figures(b)
	return slices.Concat(f[:], p.agents(b), p.owners(b), p.labelled(b))
}

// counted returns the query for the values that an agent's native histogram has got in each slice.
func (p *Plan) counted(metric string, b Batch) string {
	return fmt.Sprintf("sum by (%s) (increase(%s[%ds]))", container, p.selector(metric, b.Namespaces, named), int(p.Slice.Seconds()))
}

// agents returns the queries for what agents have counted: the demand of periods, and the number of
// samples.
func (p *Plan) agents(b Batch) []string {
	return []string{p.counted(Demand, b), fmt.Sprintf("histogram_count(%s)", p.counted(Throttling, b))}
}

// figures returns the queries for the figures of containers.
func (p *Plan) figures(b Batch) [figures]string {
	slice := fmt.Sprintf("%ds", int(p.Slice.Seconds()))
	windows := int(p.Window.Seconds())
	overWindows := func(metric string) string {
		return fmt.Sprintf("(%s)[%s:%ds]", p.of(metric, b), slice, windows)
	}
	increase := func(metric string) string { // in the windows that count as seen
		return fmt.Sprintf("sum_over_time(%s) * %d", overWindows(metric), windows)
	}
	resource := func(metric, aggregate, time string) string {
		return fmt.Sprintf("%s by (%s) (%s(%s[%s]))", aggregate, container, time, p.selector(metric, b.Namespaces, `resource="cpu"`), slice)
	}
	counter := p.selector(p.Options.Counter, b.Namespaces, named)
	spec := func(metric string) string {
		return fmt.Sprintf("max by (%s) (last_over_time(%s[%s]))", container, p.selector(metric, b.Namespaces, named), slice)
	}
	now := func(metric string) string {
		return fmt.Sprintf("max by (%s) (last_over_time(%s[%ds]))", container, p.selector(metric, b.Namespaces, `resource="cpu"`), int(p.over.Seconds()))
	}
	return [figures]string{
		seen:             fmt.Sprintf("count_over_time(%s) * %d", overWindows(p.Options.Counter), windows),
		mean:             fmt.Sprintf("avg_over_time(%s)", overWindows(Usage)),
		highest:          fmt.Sprintf("quantile_over_time(%v, %s)", high, overWindows(Usage)),
		periods:          increase(Periods),
		throttled:        increase(ThrottledPeriods),
		throttledSeconds: increase(ThrottledSeconds),
		limit:            now(Limits),
		limitLow:         resource(Limits, "min", "min_over_time"),
		limitHigh:        resource(Limits, "max", "max_over_time"),
		request:          resource(Requests, "max", "last_over_time"),
		requested:        now(Requests),
		specLimit:        fmt.Sprintf("%s / %s", spec(SpecQuota), spec(SpecPeriod)),
		specPeriod:       spec(SpecPeriod) + " / 1e6",
		last:             fmt.Sprintf("max by (%s) (max_over_time(timestamp(%s)[%s:%ds]))", container, counter, slice, windows),
		runs: byGroup(func(id string) string {
			return fmt.Sprintf("count by (%s) (group by (%[1]s, id, name) (last_over_time(%s[%s])))", container, p.selector(p.Options.Counter, b.Namespaces, named, id), slice)
		}),
	}
}

// owners returns the queries for the owners of pods, replica sets and jobs.
func (p *Plan) owners(b Batch) []string {
	slice := fmt.Sprintf("%ds", int(p.Slice.Seconds()))
	owner := func(metric, of string) string {
		return fmt.Sprintf("group by (namespace, %s, owner_kind, owner_name) (last_over_time(%s[%s]))", of, p.selector(metric, b.Namespaces, `owner_name!=""`), slice)
	}
	return []string{owner(PodOwner, "pod"), owner(ReplicaSetOwner, "replicaset"), owner(JobOwner, "job_name")}
}
