package metricfile

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"pinfold.dev/pinfold/kube/metrics"
)

const begin = 1_772_366_400 // a whole hour

// read returns what is wrong with files.
func read(ctx context.Context, s *Store, files ...string) error {
	for _, text := range files {
		if err := s.Read(ctx, bufio.NewReader(strings.NewReader(text))); err != nil {
			return err
		}
	}
	return nil
}

// answer is that of a range query, with a series of container app in each pod.
func answer(metric string, values ...[]string) string {
	var series []string
	for i, v := range values {
		series = append(series, fmt.Sprintf(`{"metric":{"__name__":%q,"namespace":"shop","pod":"web-%d","container":"app","id":"/%[2]d"},"values":[%s]}`, metric, i, strings.Join(v, ",")))
	}
	return `{"status":"success","data":{"resultType":"matrix","result":[` + strings.Join(series, ",") + "]}}\n"
}

// counter returns samples of a counter that begins again after each 100 samples.
func counter(from, to, step int) (values []string) {
	for i := from; i < to; i++ {
		values = append(values, fmt.Sprintf(`[%d,"%d"]`, begin+i*step, 7*(i%100)))
	}
	return values
}

// TestProblems checks what is said about files that cannot be used.
func TestProblems(t *testing.T) {
	label := func(of string) string {
		return fmt.Sprintf(`{"data":{"result":[{"metric":{%s},"values":[[%d,"1"],[%d,"2"]]}]}}`, of, begin, begin+3600)
	}
	for name, test := range map[string]struct{ file, want string }{
		"an error":            {`{"status":"error","errorType":"bad_data","error":"invalid parameter \"query\""}`, `an error of the server: invalid parameter "query"`},
		"a vector":            {`{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1772366400,"1"]}]}}`, "ask query_range instead of query, with start, end and step (it is a vector)"},
		"a vector alone":      {`[{"metric":{"__name__":"up"},"value":[1772366400,"1"]}]`, "ask query_range instead"},
		"a scalar":            {`{"status":"success","data":{"resultType":"scalar","result":[1772366400,"1"]}}`, "it is a scalar"},
		"no result":           {answer("up"), "the query matched nothing in its time; ask query_range for '{__name__=~"},
		"names of labels":     {`{"status":"success","data":["__name__","job"]}`, "not an answer of Prometheus"},
		"other JSON":          {"[1, 2]", "about one instant"},
		"an object":           {`{"a": {"b": 1}}`, "this JSON is not an answer of Prometheus"},
		"cut short":           {answer(metrics.Usage, counter(0, 9, 60))[:300], "damaged, or was cut short"},
		"damaged":             {strings.Replace(answer(metrics.Usage, counter(0, 9, 60)), "],[", "]]]", 1), "damaged"},
		"another metric":      {answer("up", counter(0, 9, 60)), "there is no container_cpu_usage_seconds_total, but up: ask query_range"},
		"a rate":              {label(`"namespace":"shop","pod":"web-0"`), "series have no name, as those of rate() and sum()"},
		"no container":        {label(`"__name__":"container_cpu_usage_seconds_total","namespace":"shop","pod":"web-0"`), "must have the labels namespace, pod and container"},
		"owners alone":        {label(`"__name__":"kube_pod_owner","namespace":"shop","pod":"web-0"`), "there is no container_cpu_usage_seconds_total, but kube_pod_owner"},
		"NaN":                 {answer(metrics.Usage, []string{`[1772366400,"NaN"]`, `[1772366460,"+Inf"]`}), "all values are NaN or infinite"},
		"one sample":          {answer(metrics.Usage, counter(0, 1, 60)), "too short: ask query_range for an hour or more"},
		"two samples":         {answer(metrics.Usage, counter(0, 2, 3600)), "a time of 1h0m0s is too short"},
		"milliseconds":        {answer(metrics.Usage, []string{`[1772366400000,"1"]`}), "not in seconds since 1970"},
		"a value is missing":  {answer(metrics.Usage, []string{`[1772366400]`}), "damaged"},
		"three values":        {answer(metrics.Usage, []string{`[1772366400,"1","2"]`}), "values must be pairs"},
		"a number as text":    {answer(metrics.Usage, []string{`[1772366400,"one"]`}), `"one" is not a number`},
		"values before names": {`[{"values":[[1772366400,"1"]],"metric":{}}]`, "a series has values before its labels"},
		"a page":              {"<html><body>Login</body></html>", "it is an HTML page, not an answer of Prometheus"},
		"a page afterwards":   {answer(metrics.Usage, counter(0, 9, 60)) + "<html>", "after an answer there is something else than JSON"},
		"a dump: seconds":     {`{__name__="container_cpu_usage_seconds_total"} 5 1772366400`, "line 1: the time \"1772366400\" is not in milliseconds since 1970"},
		"a dump: no value":    {`{__name__="container_cpu_usage_seconds_total"}`, `line 1: "" is not a number`},
		"a dump: no label":    {"{a=\"\\\"}\"} 5 1772366400000\n{a=5} 5 6\n", "line 2 is not one of 'promtool tsdb dump'"},
		"a dump: cut labels":  {`{a="b} 5 1772366400000`, "line 1 is not one of"},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(metrics.Metrics())
			err := read(t.Context(), s, test.file)
			if err == nil {
				_, err = s.Options(metrics.Options{})
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

// increases returns the answer to a query about files, and the options that they lead to.
func increases(t *testing.T, files ...string) (metrics.Options, model.Value) {
	t.Helper()
	s := New(metrics.Metrics())
	if err := read(t.Context(), s, files...); err != nil {
		t.Fatal(err)
	}
	o, err := s.Options(metrics.Options{})
	if err != nil {
		t.Fatal(err)
	}
	v, _, err := s.QueryRange(t.Context(), `sum by (pod) (increase(`+metrics.Usage+`{namespace="shop"}[10m]))`,
		promv1.Range{Start: o.End.Add(-time.Hour), End: o.End, Step: 10 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return o, v
}

// TestPieces checks that it makes no difference how files divide the samples: in the order of time or
// not, overlapping or with gaps between them, as answers, their data or lists, or as a dump.
func TestPieces(t *testing.T) {
	const n = 300
	o, want := increases(t, answer(metrics.Usage, counter(0, n, 60), counter(50, n, 60)))
	if o.Step != time.Minute || o.Since != (n-1)*time.Minute || o.Counter != metrics.Usage || !o.End.Equal(time.Unix(begin+(n-1)*60, 0)) {
		t.Errorf("options %+v", o)
	}
	if m, ok := want.(model.Matrix); !ok || len(m) != 2 || len(m[0].Values) != 7 || m[0].Values[0].Value < 63 {
		t.Fatalf("the answer is %v", want)
	}
	part := func(from, to int) string {
		return answer(metrics.Usage, counter(from, to, 60), counter(max(from, 50), max(to, 50), 60))
	}
	var dump strings.Builder
	for pod, first := range []int{0, 50} {
		for i := first; i < n; i++ {
			fmt.Fprintf(&dump, "{__name__=%q, container=\"app\", id=\"/%d\", namespace=\"shop\", pod=\"web-%[2]d\"} %d %d\n", metrics.Usage, pod, 7*(i%100), 1000*(begin+i*60))
		}
		fmt.Fprintf(&dump, "{__name__=%q, pod=\"web-%d\"} {count:1, sum:2, (1,2]:1} %d\n", metrics.Demand, pod, 1000*begin)
	}
	data := strings.TrimSuffix(strings.TrimPrefix(part(0, n), `{"status":"success","data":`), "}\n")
	for name, files := range map[string][]string{
		"two files":          {part(0, 200), part(200, n)},
		"the last one first": {part(200, n), part(0, 200)},
		"overlapping":        {part(0, 200), part(100, n), part(50, 120)},
		"twice":              {part(0, n), part(0, n)},
		"in one file":        {part(0, 200) + part(100, n)},
		"data":               {data},
		"a list":             {"\ufeff " + strings.TrimSuffix(strings.TrimPrefix(data, `{"resultType":"matrix","result":`), "}")},
		"a dump":             {dump.String()},
		"a dump, and JSON":   {dump.String(), part(10, 20)},
		"other series":       {part(0, n), answer("kube_pod_info", counter(0, n, 15))},
		"infinite":           {part(0, n), answer(metrics.Usage, []string{`[1772366430,"Inf"]`})},
	} {
		t.Run(name, func(t *testing.T) {
			if got, v := increases(t, files...); cmp.Diff(o, got) != "" || cmp.Diff(want, v) != "" {
				t.Errorf("options: %s\nanswer: %s", cmp.Diff(o, got), cmp.Diff(want, v))
			}
		})
	}
}

// TestStep checks the time between samples, by which usage is averaged: the largest of usual ones.
func TestStep(t *testing.T) {
	gaps := answer(metrics.Usage, append(counter(0, 50, 15), counter(4000, 4050, 15)...))
	for name, test := range map[string]struct {
		files []string
		want  time.Duration
	}{
		"gaps":             {[]string{gaps}, 15 * time.Second},
		"different steps":  {[]string{gaps, answer(metrics.ThrottledPeriods, counter(0, 50, 300))}, 5 * time.Minute},
		"a day each":       {[]string{answer(metrics.Usage, counter(0, 5, 86400))}, 24 * time.Hour},
		"few are far away": {[]string{gaps, answer(metrics.Usage, nil, counter(0, 2, 3600))}, 15 * time.Second},
	} {
		if o, _ := increases(t, test.files...); o.Step != test.want {
			t.Errorf("%s: a step of %v, want %v", name, o.Step, test.want)
		}
	}
}

// TestEnded checks that a container is found that ended long before the data does.
func TestEnded(t *testing.T) {
	s := New(metrics.Metrics())
	if err := read(t.Context(), s, strings.ReplaceAll(answer(metrics.Usage, counter(10, 60, 60)), "shop", "batch"), answer(metrics.Usage, counter(0, 3000, 60))); err != nil {
		t.Fatal(err)
	}
	o, err := s.Options(metrics.Options{})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := metrics.NewPlan(t.Context(), s, o)
	if err != nil || len(plan.Batches) != 1 || len(plan.Batches[0].Namespaces) != 2 {
		t.Fatalf("plan %+v, %v", plan, err)
	}
	found, err := plan.Read(t.Context(), s, plan.Batches[0])
	if err != nil || len(found.Workloads) != 2 || found.Workloads[0].Namespace != "batch" || found.Workloads[0].Containers[0].Slices[0].Seen < 40*time.Minute {
		t.Errorf("found %+v, %v", found, err)
	}
}

// TestMemory checks that the memory is bounded, and that reading can be interrupted.
func TestMemory(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var values []string
	for i := range 100_000 {
		values = append(values, fmt.Sprintf(`[%d,"%v"]`, begin+r.IntN(1_000_000), r.Float64()+float64(i)))
	}
	s := New(metrics.Metrics())
	s.limit = 1 << 20
	if err := read(t.Context(), s, answer(metrics.Usage, values)); !errors.Is(err, errTooLarge) || s.bytes > 2<<20 {
		t.Errorf("error %v after %d bytes", err, s.bytes)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := read(ctx, New(metrics.Metrics()), answer(metrics.Usage, counter(0, 9, 60))); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

// FuzzRead reads any file.
func FuzzRead(f *testing.F) {
	f.Add(answer(metrics.Usage, counter(0, 20, 60)))
	f.Add(`{__name__="container_cpu_usage_seconds_total", namespace="a", pod="b", container="c"} 5 1772366400000`)
	f.Fuzz(func(t *testing.T, text string) {
		s := New(metrics.Metrics())
		if read(t.Context(), s, text) != nil {
			return
		}
		o, err := s.Options(metrics.Options{})
		if err != nil {
			return
		}
		if _, err := metrics.NewPlan(t.Context(), s, o); err != nil {
			t.Error(err)
		}
	})
}
