package cluster

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/test/must"
)

// ask runs "why --cluster" with a server that gives these answers: to the query for agents, for all, and for
// pairs.
func ask(t *testing.T, answers [3]string, namespace string, format frame.Format) (string, error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.FormValue("query")
		answer := answers[0]
		switch {
		case strings.Contains(query, "pinfold_contention_pair_seconds_total"):
			answer = answers[2]
		case strings.Contains(query, "pinfold_container_cpu_waiting_seconds_total"):
			answer = answers[1]
		}
		if namespace != "" && answer != answers[0] && !strings.Contains(query, `namespace="`+namespace+`"`) {
			t.Errorf("%s is about all namespaces", query)
		}
		_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"vector","result":[` + answer + `]}}`))
	}))
	defer server.Close()
	var o contentionOptions
	cmd := &cobra.Command{Use: "why"}
	o.addFlags(cmd)
	must.Do(t, cmd.ParseFlags([]string{"--cluster", "--prometheus", server.URL}))
	var out strings.Builder
	err := o.run(t.Context(), &out, format, namespace)
	return out.String(), err
}

const (
	threeAgents = `{"metric":{"node":"a"},"value":[1,"1"]},{"metric":{"node":"b"},"value":[1,"1"]},{"metric":{"node":"c"},"value":[1,"0"]}`
	pairs       = `{"metric":{"namespace":"shop","workload":"Deployment/web","behind":"thread kworker"},"value":[1,"0.02"]},` +
		`{"metric":{"namespace":"shop","workload":"Deployment/web","behind_namespace":"batch","behind":"Job/encode"},"value":[1,"1.25"]},` +
		`{"metric":{"namespace":"shop","workload":"Deployment/web","behind":"a\u001b[31m"},"value":[1,"0.01"]},{"metric":{"behind":"none"},"value":[1,"NaN"]},` +
		`{"metric":{"namespace":"data","workload":"StatefulSet/db","behind_namespace":"batch","behind":"Job/encode"},"value":[1,"0.5"]}`
)

func TestContention(t *testing.T) {
	out, err := ask(t, [3]string{threeAgents, `{"metric":{},"value":[1,"2.1"]}`, pairs}, "", frame.Text)
	must.Do(t, err)
	_, table, _ := strings.Cut(out, "\n")
	want := `on 2 of 3 nodes: 2.1 in all, without what they waited for their own limits.

CPUS   WAITS                BEHIND
1.250  shop/Deployment/web  batch/Job/encode
0.500  data/StatefulSet/db  batch/Job/encode
0.020  shop/Deployment/web  thread kworker
0.010  shop/Deployment/web  a?[31m

Waits most: shop/Deployment/web (1.280).
Most is waited behind: batch/Job/encode (1.750).
`
	if table != want {
		t.Errorf("%s\nwant\n%s", table, want)
	}
	out, err = ask(t, [3]string{threeAgents, `{"metric":{},"value":[1,"2.1"]}`, pairs}, "shop", frame.JSON)
	must.Do(t, err)
	if !strings.Contains(out, `"sampled":2,"cpus":2.1,"pairs":[{"namespace":"shop","workload":"Deployment/web","behindNamespace":"batch","behind":"Job/encode","cpus":1.25}`) {
		t.Errorf("%s", out)
	}
	for want, answers := range map[string][3]string{
		"has no metric pinfold_contention_running": {},
		"none of 1 agents samples":                 {`{"metric":{},"value":[1,"0"]}`},
	} {
		if _, err := ask(t, answers, "", frame.Text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if out, err = ask(t, [3]string{threeAgents}, "", frame.Text); err != nil || !strings.Contains(out, "2 of 3 nodes: 0 in all") || strings.Contains(out, "BEHIND") {
		t.Errorf("%v: %s", err, out)
	}
	all := contention{Nodes: 2, Sampled: 2, CPUs: 3, Pairs: []pair{{"shop", "Deployment/web", "batch", "Job/<b>encode", 2}, {"shop", "Deployment/web", "", "thread kworker", 1}}}
	for i := range 20 {
		all.Pairs = append(all.Pairs, pair{"shop", "Deployment/web", "batch", fmt.Sprint("Job/", i), .01})
	}
	page := string(must.Get(all.page())(t))
	for _, want := range []string{"batch/<wbr>Job/<wbr>&lt;b&gt;encode", "--part: 60%", "--part: 42%", "2.000", "<th scope=\"col\">others</th>", ">0.100</td>", "3.200"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q on the page:\n%s", want, page)
		}
	}
	short := contentionOptions{since: time.Minute}
	if err := short.run(t.Context(), nil, frame.Text, ""); err == nil || !strings.Contains(err.Error(), "5m or more") {
		t.Errorf("%v", err)
	}
}
