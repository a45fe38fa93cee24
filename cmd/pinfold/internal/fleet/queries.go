package fleet

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// The series, by container. With cpu="total", or per CPU; from two servers that read the same, once.
const (
	containers = `container!="",container!="POD"`
	usage      = "container_cpu_usage_seconds_total"
	by         = "by (namespace, pod, container) "
	limits     = "kube_pod_container_resource_limits"
	cpu        = `,resource="cpu"`
)

// queries returns the queries about the containers in some namespaces. The limit that was written is better than
// the one that is set, because the agent raises quotas.
func (r *Request) queries(namespaces []string) map[string]string {
	for i, namespace := range namespaces {
		namespaces[i] = regexp.QuoteMeta(namespace)
	}
	in := "{" + containers + ",namespace=~" + strconv.Quote(strings.Join(namespaces, "|")) + r.match()
	total := func(name string) string {
		return "max " + by + "(" + name + in + `,cpu="total"}) or sum ` + by + "(max by (namespace, pod, container, cpu) (" + name + in + `,cpu!="total"}))`
	}
	one := func(name string) string { return "max " + by + "(" + name + in + "})" }
	return map[string]string{
		"usage":     total(usage),
		"periods":   one("container_cpu_cfs_periods_total"),
		"throttled": one("container_cpu_cfs_throttled_periods_total"),
		"bursts":    one("container_cpu_cfs_burst_periods_total"),
		"period":    one("container_spec_cpu_period"),
		"started":   one("container_start_time_seconds"),
		"limit": "max " + by + "(" + limits + in + cpu + "}) or max " + by +
			"(container_spec_cpu_quota" + in + "} / container_spec_cpu_period" + in + "})",
	}
}

// Queries returns the queries that a request leads to, if there are few containers.
func (r *Request) Queries() []string {
	namespaces := []string{"NAMESPACES"}
	if r.Namespace != "" {
		namespaces = []string{r.Namespace}
	}
	all := []string{r.clusters(), r.sizes()}
	for _, about := range r.abouts() {
		all = append(all, about.query)
	}
	for _, name := range slices.Sorted(maps.Keys(r.queries(nil))) {
		all = append(all, r.queries(slices.Clone(namespaces))[name])
	}
	if r.Namespace == "" {
		all = append(all, r.podNodes(), r.nodeCPUs())
	}
	return all
}

// match returns the matchers of all series, and selector those of one namespace, too, if only that is
// wanted.
func (r *Request) match() string {
	if r.Match == "" {
		return ""
	}
	return "," + r.Match
}

func (r *Request) selector() string {
	if r.Namespace == "" {
		return r.match()
	}
	return ",namespace=" + strconv.Quote(r.Namespace) + r.match()
}

// clusters asks which clusters the server has, as far as its series say that.
func (r *Request) clusters() string {
	return "count by (cluster) (" + usage + "{" + containers + r.selector() + "})"
}

// sizes asks how many containers each namespace has had.
func (r *Request) sizes() string {
	return "count by (namespace) (count " + by + "(last_over_time(" + usage + "{" + containers + r.selector() + "}" + r.over() + ")))"
}

func (r *Request) over() string { return fmt.Sprintf("[%ds]", int64(r.Since/time.Second)) }

// about is a query about all containers, and what to do with each series of its answer.
type about struct {
	query string
	keep  func(*facts, model.Metric, float64)
}

// abouts returns these queries.
func (r *Request) abouts() []about {
	last := func(labels, name, matchers string) string {
		return "max by (" + labels + ") (last_over_time(" + name + "{" + matchers + r.selector() + "}" + r.over() + "))"
	}
	const container3 = "namespace, pod, container"
	pod := func(m model.Metric) container {
		return container{namespace: string(m["namespace"]), pod: string(m["pod"])}
	}
	owner := func(kind string, label model.LabelName) func(*facts, model.Metric, float64) {
		return func(f *facts, m model.Metric, _ float64) {
			if name := string(m["owner_name"]); name != "" && name != "<none>" {
				f.owners[[3]string{kind, string(m["namespace"]), string(m[label])}] = string(m["owner_kind"]) + "/" + name
			}
		}
	}
	return []about{
		{last("namespace, replicaset, owner_kind, owner_name", "kube_replicaset_owner", `replicaset!=""`), owner("ReplicaSet", "replicaset")},
		{last("namespace, job_name, owner_kind, owner_name", "kube_job_owner", `job_name!=""`), owner("Job", "job_name")},
		{last("namespace, pod, owner_kind, owner_name", "kube_pod_owner", `pod!=""`), func(f *facts, m model.Metric, _ float64) {
			f.names[pod(m)] = f.workload(string(m["namespace"]), string(m["owner_kind"]), string(m["owner_name"]), string(m["pod"]))
		}},
		// A server that has no limits at all does not know who has none.
		{"(" + last(container3, "kube_pod_container_info", `container!=""`) + " unless " + last(container3, limits, `container!=""`+cpu) + ") and on () count(last_over_time(" +
			limits + `{container!=""` + cpu + r.match() + "}" + r.over() + "))", func(f *facts, m model.Metric, _ float64) { f.unlimited[containerOf(m)] = true }},
		{last("namespace, pod", "container_cpu_cfs_periods_total", `container="",pod!=""`), func(f *facts, m model.Metric, _ float64) { f.ofPod[pod(m)] = true }},
		{last(container3, "kube_pod_container_resource_requests", `container!=""`+cpu), func(f *facts, m model.Metric, v float64) { f.requests[containerOf(m)] = v }},
	}
}
