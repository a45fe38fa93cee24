package fleet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/cmd/pinfold/internal/prometheus"
	"pinfold.dev/pinfold/core/verdict"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

func connect(t *testing.T, url string) *prometheus.Client {
	t.Helper()
	var s prometheus.Server
	cmd := &cobra.Command{}
	s.AddFlags(cmd)
	must.Do(t, cmd.ParseFlags([]string{"--prometheus", url}))
	return must.Get(s.Connect())(t)
}

// server answers as Prometheus would about containers in namespaces: each uses 0.1 CPUs of 0.4, and is
// throttled in a fifth of its periods.
func server(t *testing.T, namespaces map[string]int, drop string) (url string, queries *[]string) {
	t.Helper()
	queries = &[]string{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.FormValue("query")
		*queries = append(*queries, query)
		type series struct {
			Metric map[string]string `json:"metric"`
			Value  []any             `json:"value,omitempty"`
			Values [][]any           `json:"values,omitempty"`
		}
		result := []series{}
		kind := "vector"
		if strings.HasSuffix(r.URL.Path, "query_range") {
			kind = "matrix"
		}
		start, _ := strconv.ParseFloat(r.FormValue("start"), 64)
		end, _ := strconv.ParseFloat(r.FormValue("end"), 64)
		step, _ := strconv.ParseFloat(r.FormValue("step"), 64)
		for namespace, n := range namespaces {
			if strings.HasPrefix(query, "count(") { // no label is renamed
				break
			}
			if kind == "vector" && strings.HasPrefix(query, "count by (namespace)") {
				result = append(result, series{Metric: map[string]string{"namespace": namespace}, Value: []any{end, fmt.Sprint(n)}})
				continue
			}
			for i := range n {
				pod := fmt.Sprintf("web-%d", i)
				labels := map[string]string{"namespace": namespace, "pod": pod, "container": "app"}
				switch {
				case kind == "vector" && strings.Contains(query, "kube_replicaset_owner") && i == 0:
					result = append(result, series{Metric: map[string]string{"namespace": namespace, "replicaset": "web-5d4f8c7b9d", "owner_kind": "Deployment", "owner_name": "web"}, Value: []any{end, "1"}})
				case kind == "vector" && strings.Contains(query, "kube_pod_owner"):
					result = append(result, series{Metric: map[string]string{"namespace": namespace, "pod": pod, "owner_kind": "ReplicaSet", "owner_name": "web-5d4f8c7b9d"}, Value: []any{end, "1"}})
				case strings.Contains(query, "burst_periods") || strings.Contains(query, "start_time") || strings.Contains(query, "spec_cpu_period") && !strings.Contains(query, "limits"):
				case kind == "matrix" && strings.Contains(query, namespace) && (drop == "" || !strings.Contains(query, drop)):
					rate := 0.1
					switch {
					case strings.Contains(query, "timestamp("):
						rate = 1
					case strings.Contains(query, "throttled_periods"):
						rate = 2
					case strings.Contains(query, "periods_total"):
						rate = 5
					case strings.Contains(query, "resource_limits"):
						rate = 0
					}
					one := series{Metric: labels}
					for at := start; at <= end; at += step {
						value := rate * (at - start)
						if rate == 0 {
							value = 0.4
						}
						one.Values = append(one.Values, []any{at, fmt.Sprint(value)})
					}
					result = append(result, one)
				}
			}
		}
		must.Do(t, json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": map[string]any{"resultType": kind, "result": result}}))
	}))
	t.Cleanup(s.Close)
	return s.URL, queries
}

// TestRead: replicas are one workload, and namespaces are asked for in batches.
func TestRead(t *testing.T) {
	url, queries := server(t, map[string]int{"shop": 3, "data": 1}, "")
	done := 0
	r := Request{Since: 24 * time.Hour, At: time.Unix(1_800_000_000, 0), Goal: .01, Progress: func(n, _ int) { done = n }}
	found := must.Get(Read(t.Context(), connect(t, url), r))(t)
	Sort(found)
	if len(found) != 2 || done != 4 || len(*queries) != 23 {
		t.Fatalf("%d workloads after %d of 4 containers, and %d queries: %+v", len(found), done, len(*queries), found)
	}
	w := found[0]
	if w.Namespace != "shop" || w.Workload != "Deployment/web" || w.Container != "app" || w.Pods != 3 || w.Throttled == nil || *w.Throttled < .19 || *w.Throttled > .21 || w.Limit != .4 {
		t.Errorf("%+v", w)
	}
	if w.Time.Duration < 71*time.Hour {
		t.Errorf("windows of %v, want of three days", w.Time)
	}
	var out strings.Builder
	must.Do(t, Print(&out, found, &r, true))
	var rows strings.Builder
	must.Do(t, PrintCSV(&rows, found))
	if !strings.Contains(rows.String(), "\nshop,Deployment/web,app,3,") || strings.Count(rows.String(), "\n") != 3 {
		t.Errorf("%s", rows.String())
	}
	if !strings.Contains(out.String(), "2 containers in the 1d before 2027-01-15 08:00 UTC") || !strings.Contains(out.String(), "shop/Deployment/web") {
		t.Errorf("%s", out.String())
	}
}

// TestMissing: what a server does not have is unknown, and never zero.
func TestMissing(t *testing.T) {
	for drop, want := range map[string]string{
		"container_cpu_cfs_throttled_periods_total": "whether it was throttled is not known",
		"container_cpu_cfs_periods_total":           "whether it was throttled is not known",
		"kube_pod_container_resource_limits":        "its limit is not known",
	} {
		url, _ := server(t, map[string]int{"shop": 1}, drop)
		found := must.Get(Read(t.Context(), connect(t, url), Request{Since: 24 * time.Hour, At: time.Unix(1_800_000_000, 0), Goal: .01, Progress: func(int, int) {}}))(t)
		if len(found) != 1 || found[0].Action != verdict.Unknown || !strings.Contains(found[0].Reason, want) || (found[0].Throttled == nil) != strings.Contains(drop, "cfs") {
			t.Errorf("without %s: %+v", drop, found)
		}
	}
	url, _ := server(t, nil, "")
	if _, err := Read(t.Context(), connect(t, url), Request{Since: 24 * time.Hour, At: time.Unix(1_800_000_000, 0), Goal: .01}); err == nil || !strings.Contains(err.Error(), "does it read the kubelets'") {
		t.Errorf("%v", err)
	}
}

// TestInterrupted: if the server fails in the middle, what is known is printed, and said to be a part. There
// are no patches.
func TestInterrupted(t *testing.T) {
	whole, queries := server(t, map[string]int{"shop": 700, "zeta": 700}, "")
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(*queries) >= 21 { // twelve of all, and nine of the first batch
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		httputil.NewSingleHostReverseProxy(must.Get(url.Parse(whole))(t)).ServeHTTP(w, r)
	}))
	defer proxy.Close()
	cmd := &cobra.Command{}
	var o Options
	o.AddFlags(cmd)
	patches := filepath.Join(t.TempDir(), "patches")
	must.Do(t, cmd.ParseFlags([]string{"--prometheus", proxy.URL, "--since", "1h", "--patches", patches}))
	cmd.SetContext(t.Context())
	var out strings.Builder
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	err := o.Run(cmd, .01, frame.Text, false, "", false)
	if err == nil || !strings.Contains(out.String(), "Incomplete: the server failed in the middle, or was interrupted. 1 container ") {
		t.Errorf("%v: %s", err, out.String())
	}
	if _, err := os.Stat(patches); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("patches of a part: %v", err)
	}
}

func TestBatches(t *testing.T) {
	got := batches(map[string]int{"a": 400, "b": 600, "c": 1, "d": 5000, "e": 2})
	if want := "[[a b] [c] [d] [e]]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// TestWindows: resets, gaps, restarts, and what is no number.
func TestWindows(t *testing.T) {
	const step = 5 * time.Minute
	points := func(values ...float64) (all []model.SamplePair) {
		for i, v := range values {
			all = append(all, model.SamplePair{Timestamp: model.Time(i) * model.Time(step/time.Millisecond), Value: model.SampleValue(v)})
		}
		return all
	}
	read := func(answers map[string][]model.SamplePair) replica {
		return newReplica(container{}, func(name string) []model.SamplePair { return answers[name] }, step)
	}
	answers := map[string][]model.SamplePair{"usage": points(0, 30, 10, 40, 70), "periods": points(0, 100, 100, 200, 150),
		"throttled": points(0, 50, 50, 50, 60), "limit": points(1, 1, 1, 2, 2), "period": points(1e5, 1e5, 1e5, 1e5, 1e5)}
	one := read(answers)
	if len(one.windows) != 3 || one.limit != 2 || one.period != .1 {
		t.Fatalf("%+v, want 3 windows: one began anew", one)
	}
	if w := one.windows[0]; w.Limit != 1 || !w.Counted || w.Periods != 100 || w.Throttled != 50 || w.Usage != 30*time.Second || w.Time != step {
		t.Errorf("%+v", w)
	}
	if w := one.windows[1]; w.Limit != 0 || !w.Counted {
		t.Errorf("the limit changed: %+v", w)
	}
	if w := one.windows[2]; w.Limit != 2 || w.Counted {
		t.Errorf("the periods began anew: %+v", w)
	}
	answers["started"] = points(5, 5, 6, 7, 7)
	if one := read(answers); len(one.windows) != 2 {
		t.Errorf("it was restarted: %+v", one.windows)
	}
	answers["time"] = points(5e3, 5e3+60, 5e3+60, 5e3+120, 5e3+240) // the third was not read again
	if one := read(answers); len(one.windows) != 2 || one.windows[0].Time != time.Minute || one.windows[1].Time != 2*time.Minute {
		t.Errorf("%+v, want windows between readings", one.windows)
	}
	gap := points(0, 1, 2, 3, 4, 5)
	for _, usage := range [][]model.SamplePair{append(gap[:1], gap[5]), points(0, math.NaN(), 1), nil} {
		if one := read(map[string][]model.SamplePair{"usage": usage}); len(one.windows) != 0 {
			t.Errorf("%v: %+v", usage, one.windows)
		}
	}
}

// TestReplicas: a verdict is about the limit of what runs now, if all replicas have the same.
func TestReplicas(t *testing.T) {
	window := func(limit, throttled float64) (all []verdict.Window) {
		for range 100 {
			all = append(all, verdict.Window{Time: 5 * time.Minute, Usage: time.Minute, Limit: limit, Periods: 3000, Throttled: throttled, Counted: limit > 0})
		}
		return all
	}
	r := Request{Since: 24 * time.Hour, Goal: .01}
	pod := func(name string, last int, limit, throttled float64) replica {
		return replica{container{"shop", name, "app"}, window(limit, throttled), model.Time(last * 1000), limit, .1, verdict.Measured{}}
	}
	none := &facts{}
	free := &facts{unlimited: map[container]bool{{"shop", "b", "app"}: true}}
	ofPod := &facts{unlimited: free.unlimited, ofPod: map[container]bool{{"shop", "b", ""}: true}}
	slow := pod("b", 5000, 1, 0)
	slow.period = 1
	for name, test := range map[string]struct {
		all   []replica
		facts *facts
		want  verdict.Action
		why   string
	}{
		"raised since":      {[]replica{pod("a", 0, 1, 600), pod("b", 5000, 4, 0)}, none, verdict.Fine, "0% of the periods"},
		"different":         {[]replica{pod("a", 5000, 1, 600), pod("b", 5000, 4, 0)}, none, verdict.Unknown, "different limits"},
		"removed since":     {[]replica{pod("a", 0, 1, 600), pod("b", 5000, 0, 0)}, free, verdict.NoLimit, "has no limit"},
		"limit of the pod":  {[]replica{pod("b", 5000, 0, 0)}, ofPod, verdict.Unknown, "its pod has one"},
		"another period":    {[]replica{slow}, none, verdict.Unknown, "enforcement period is 1s"},
		"limit not known":   {[]replica{pod("b", 5000, 0, 0)}, none, verdict.Unknown, "neither its limit"},
		"one of many":       {append(slices.Repeat([]replica{pod("a", 5000, 1, 0)}, 99), pod("b", 5000, 1, 600)), none, verdict.Fine, "one of its 100 replicas in 20%"},
		"of all, throttled": {[]replica{pod("a", 5000, 1, 600), pod("b", 5000, 1, 600)}, none, "", "20% of the periods"},
	} {
		v := r.judge(test.all, test.facts)
		if test.want != "" && v.Action != test.want || !strings.Contains(v.Reason, test.why) {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

func TestWorkload(t *testing.T) {
	f := facts{owners: map[[3]string]string{{"ReplicaSet", "shop", "web-5d4f8c7b9d"}: "Deployment/web", {"ReplicaSet", "shop", "canary-5d4f8c7b9d"}: "Rollout/canary",
		{"Job", "shop", "report-29384756"}: "CronJob/report"}}
	for _, test := range [][4]string{
		{"ReplicaSet", "web-5d4f8c7b9d", "web-5d4f8c7b9d-x7x2k", "Deployment/web"},
		{"ReplicaSet", "canary-5d4f8c7b9d", "canary-5d4f8c7b9d-x7x2k", "Rollout/canary"},
		{"ReplicaSet", "other-5d4f8c7b9d", "other-5d4f8c7b9d-x7x2k", "other"},
		{"ReplicaSet", "plain", "plain-x7x2k", "ReplicaSet/plain"},
		{"StatefulSet", "db", "db-0", "StatefulSet/db"},
		{"Job", "report-29384756", "report-29384756-abcde", "CronJob/report"},
		{"Job", "backup-20261130", "backup-20261130-abcde", "backup"},
		{"Job", "once", "once-abcde", "Job/once"},
		{"Node", "n1", "etcd-n1", "Pod/etcd"},
		{"<none>", "<none>", "alone", "Pod/alone"},
	} {
		if got := f.workload("shop", test[0], test[1], test[2]); got != test[3] {
			t.Errorf("%v: %s", test, got)
		}
	}
	for pod, want := range map[string]string{"web-5d4f8c7b9d-x7x2k": "web", "db-0": "db", "agent-x7x2k": "agent", "alone": "alone"} {
		if got := guess(pod); got != want {
			t.Errorf("%s: %s, want %s", pod, got, want)
		}
	}
}

// TestQueries: the queries are those of a file, which tools/monitoring runs in Prometheus' engine.
func TestQueries(t *testing.T) {
	r := Request{Namespace: "shop", Since: 24 * time.Hour}
	renamed := Request{Namespace: "shop", Since: 24 * time.Hour, cadvisor: renamed, state: renamed, agents: renamed}
	golden.Compare(t, "testdata/renamed.txt", strings.Join(append(renamed.Queries(), renamed.podNodes(), renamed.nodeCPUs()), "\n")+"\n")
	golden.Compare(t, "testdata/queries.txt", strings.Join(append(r.Queries(), r.podNodes(), r.nodeCPUs()), "\n")+"\n")
}

// TestMeasured: where agents have histograms, these decide; if they cannot be read, the counters do.
func TestMeasured(t *testing.T) {
	whole, _ := server(t, map[string]int{"shop": 2}, "")
	broken := false
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := must.Get(io.ReadAll(r.Body))(t)
		r.Body = io.NopCloser(bytes.NewReader(body))
		query, answer := must.Get(url.ParseQuery(string(body)))(t).Get("query"), ""
		switch {
		case strings.HasPrefix(query, "count(pinfold_") && !strings.Contains(query, "exported_"):
			answer = `{"metric":{},"value":[1800000000,"2"]}`
		case strings.Contains(query, "increase(") && broken:
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = w.Write([]byte(`{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory"}`))
			return
		case strings.Contains(query, "increase("):
			var all []string
			for pod := range 2 {
				all = append(all, fmt.Sprintf(`{"metric":{"namespace":"shop","pod":"web-%d","container":"app"},"histogram":[1800000000,{"count":"660000","sum":"1","buckets":[[0,"0.09","0.1","600000"],[0,"0.73","0.8","60000"]]}]}`, pod))
			}
			answer = strings.Join(all, ",")
		default:
			httputil.NewSingleHostReverseProxy(must.Get(url.Parse(whole))(t)).ServeHTTP(w, r)
			return
		}
		_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"vector","result":[` + answer + `]}}`))
	}))
	defer proxy.Close()
	var said error
	read := func() Workload {
		r := Request{Since: 24 * time.Hour, At: time.Unix(1_800_000_000, 0), Goal: .01, Progress: func(int, int) {}, Unmeasured: func(err error) { said = err }}
		found := must.Get(Read(t.Context(), connect(t, proxy.URL), r))(t)
		if len(found) != 1 {
			t.Fatalf("%+v", found)
		}
		return found[0]
	}
	if w := read(); !w.Measured || w.Action != verdict.Raise || w.Advised != .8 || w.Pods != 2 || said != nil {
		t.Errorf("%+v, %v", w, said)
	}
	broken = true
	if w := read(); w.Measured || said == nil || !strings.Contains(said.Error(), "too many samples") {
		t.Errorf("%+v, %v", w, said)
	}
}
