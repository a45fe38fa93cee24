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

const (
	usage  = "container_cpu_usage_seconds_total"
	owners = "kube_pod_owner"
	limits = "kube_pod_container_resource_limits"
	ofCPU  = `,resource="cpu"`
	// What the agents measure: histograms of the limit that an enforcement period needed, and of the CPUs that the
	// container wanted in it.
	needed = "pinfold_container_cpu_needed_limit_cores"
	wanted = "pinfold_container_cpu_wanted_cores"
)

// source is what series come from: cAdvisor, kube-state-metrics or the agents. Its value is what stands before the names
// of labels: "exported_" if Prometheus has renamed them, because the target has labels of the same names.
type source string

const renamed source = "exported_"

// by returns "by" with labels.
func (s source) by(labels ...string) string {
	return "by (" + string(s) + strings.Join(labels, ", "+string(s)) + ") "
}

// also returns "by" with more labels, as they are.
func also(by, labels string) string { return strings.Replace(by, ")", ", "+labels+")", 1) }

func (s source) byContainer() string { return s.by("namespace", "pod", "container") }

// containers returns the matchers of series of containers.
func (s source) containers() string {
	return fmt.Sprintf(`%[1]scontainer!="",%[1]scontainer!="POD"`, s)
}

// label returns a label of a series of any source.
func label(m model.Metric, name string) string {
	if value, ok := m[model.LabelName(string(renamed)+name)]; ok {
		return string(value)
	}
	return string(m[model.LabelName(name)])
}

func containerOf(m model.Metric) container {
	return container{label(m, "namespace"), label(m, "pod"), label(m, "container")}
}

func podOf(m model.Metric) container {
	return container{namespace: label(m, "namespace"), pod: label(m, "pod")}
}

// isRenamed asks whether the labels of a source are renamed.
func (r *Request) isRenamed(name string) string {
	return "count(" + name + "{" + string(renamed) + `pod!=""` + r.match() + "})"
}

// hasAgents asks whether the server has histograms of agents.
func (r *Request) hasAgents() string {
	return "count(" + needed + "{" + strings.TrimPrefix(r.match(), ",") + "})"
}

// queries returns the queries about the containers in some namespaces, by container: with cpu="total", or for
// each CPU; from two servers that read the same, once.
func (r *Request) queries(namespaces []string) map[string]string {
	by, here := r.cadvisor.byContainer(), r.in(r.cadvisor, namespaces)
	one := func(name string) string { return "max " + by + "(" + name + here + "})" }
	return map[string]string{
		"usage": "max " + by + "(" + usage + here + `,cpu="total"}) or sum ` + by + "(max " + also(by, "cpu") + "(" + usage + here +
			`,cpu!="total"}))`,
		"time":      "max " + by + "(timestamp(" + usage + here + "}))", // when it was read
		"periods":   one("container_cpu_cfs_periods_total"),
		"throttled": one("container_cpu_cfs_throttled_periods_total"),
		"bursts":    one("container_cpu_cfs_burst_periods_total"),
		"period":    one("container_spec_cpu_period"),
		"started":   one("container_start_time_seconds"),
		"quota":     one("container_spec_cpu_quota"),
		"limit": "max " + r.state.byContainer() + "(" + limits + r.in(r.state, namespaces) + ofCPU + "}) or max " + r.agents.byContainer() +
			"(pinfold_container_cpu_limit_cores" + r.in(r.agents, namespaces) + "})",
	}
}

// in returns the matchers of series of containers in some namespaces, without the last brace.
func (r *Request) in(s source, namespaces []string) string {
	quoted := make([]string, len(namespaces))
	for i, namespace := range namespaces {
		quoted[i] = regexp.QuoteMeta(namespace)
	}
	return "{" + s.containers() + "," + string(s) + "namespace=~" + strconv.Quote(strings.Join(quoted, "|")) + r.match()
}

// measured asks for a histogram of the agents. Of each series only some points are read, because a histogram
// takes much more memory than a number.
func (r *Request) measured(name string, namespaces []string) string {
	const points = 168 // one in an hour of a week
	every := max(leastStep, (r.Since / points).Round(time.Second))
	return fmt.Sprintf("sum %s(increase(%s%s}[%ds:%ds]))", r.agents.byContainer(), name, r.in(r.agents, namespaces), int64(r.Since/time.Second), int64(every/time.Second))
}

// Queries returns the queries that a request leads to, if there are few containers and no label is renamed.
func (r *Request) Queries() []string {
	namespaces := []string{"NAMESPACES"}
	if r.Namespace != "" {
		namespaces = []string{r.Namespace}
	}
	all := []string{r.isRenamed(usage), r.isRenamed(owners), r.isRenamed(needed), r.hasAgents(), r.clusters(), r.sizes()}
	for _, about := range r.abouts() {
		all = append(all, about.query)
	}
	queries := r.queries(namespaces)
	for _, name := range slices.Sorted(maps.Keys(queries)) {
		all = append(all, queries[name])
	}
	all = append(all, r.measured(needed, namespaces), r.measured(wanted, namespaces))
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

func (r *Request) selector(s source) string {
	if r.Namespace == "" {
		return r.match()
	}
	return "," + string(s) + "namespace=" + strconv.Quote(r.Namespace) + r.match()
}

// clusters asks which clusters the server has, as far as its series say that.
func (r *Request) clusters() string {
	return "count by (cluster) (" + usage + "{" + r.cadvisor.containers() + r.selector(r.cadvisor) + "})"
}

// sizes asks how many containers each namespace has had.
func (r *Request) sizes() string {
	return "count " + r.cadvisor.by("namespace") + "(count " + r.cadvisor.byContainer() + "(last_over_time(" + usage + "{" + r.cadvisor.containers() + r.selector(r.cadvisor) + "}" + r.over() + ")))"
}

func (r *Request) over() string { return fmt.Sprintf("[%ds]", int64(r.Since/time.Second)) }

// about is a query about all containers, and what to do with each series of its answer.
type about struct {
	query string
	keep  func(*facts, model.Metric, float64)
}

// abouts returns these queries.
func (r *Request) abouts() []about {
	last := func(s source, by, name, matchers string) string {
		return "max " + by + "(last_over_time(" + name + "{" + matchers + r.selector(s) + "}" + r.over() + "))"
	}
	state := func(by, name, matchers string) string { return last(r.state, by, name, matchers) }
	container := string(r.state) + `container!=""`
	owner := func(kind, name string) func(*facts, model.Metric, float64) {
		return func(f *facts, m model.Metric, _ float64) {
			if owner := label(m, "owner_name"); owner != "" && owner != "<none>" {
				f.owners[[3]string{kind, label(m, "namespace"), string(m[model.LabelName(name)])}] = label(m, "owner_kind") + "/" + owner
			}
		}
	}
	ofOwner := func(name string) string { // the labels of what is owned are not those of any target
		return "by (" + string(r.state) + "namespace, " + name + ", owner_kind, owner_name) "
	}
	return []about{
		{state(ofOwner("replicaset"), "kube_replicaset_owner", `replicaset!=""`), owner("ReplicaSet", "replicaset")},
		{state(ofOwner("job_name"), "kube_job_owner", `job_name!=""`), owner("Job", "job_name")},
		{state(ofOwner(string(r.state)+"pod"), owners, string(r.state)+`pod!=""`), func(f *facts, m model.Metric, _ float64) {
			f.names[podOf(m)] = f.workload(label(m, "namespace"), label(m, "owner_kind"), label(m, "owner_name"), label(m, "pod"))
		}},
		// A server that has no limits at all does not know who has none.
		{"(" + state(r.state.byContainer(), "kube_pod_container_info", container) + " unless " + state(r.state.byContainer(), limits, container+ofCPU) + ") and on () count(last_over_time(" +
			limits + "{" + container + ofCPU + r.match() + "}" + r.over() + "))", func(f *facts, m model.Metric, _ float64) { f.unlimited[containerOf(m)] = true }},
		{last(r.cadvisor, r.cadvisor.by("namespace", "pod"), "container_cpu_cfs_periods_total", fmt.Sprintf(`%[1]scontainer="",%[1]spod!=""`, r.cadvisor)),
			func(f *facts, m model.Metric, _ float64) { f.ofPod[podOf(m)] = true }},
		{state(r.state.byContainer(), "kube_pod_container_resource_requests", container+ofCPU), func(f *facts, m model.Metric, v float64) { f.requests[containerOf(m)] = v }},
	}
}
