package fleet

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/kube/metrics"
)

// TestLargeAnswer checks that the query of a batch is divided if its answer is too large, and what is
// said about one namespace.
func TestLargeAnswer(t *testing.T) {
	large := func(query string) bool { return strings.Contains(query, "|") }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query, series := r.FormValue("query"), ""
		switch {
		case strings.HasPrefix(query, "count by"):
			for i := range 4 {
				series += fmt.Sprintf(`,{"metric":{"namespace":"n%d"},"values":[[%d,"1"]]}`, i, time.Now().Unix())
			}
		case large(query):
			series = strings.Repeat(`,{"metric":{},"values":[]}`, 1000)
		case strings.HasPrefix(query, "count_over_time"):
			_, rest, _ := strings.Cut(query, `namespace=~"`)
			namespaces, _, _ := strings.Cut(rest, `"`)
			for namespace := range strings.SplitSeq(namespaces, "|") {
				series += fmt.Sprintf(`,{"metric":{"namespace":%q,"pod":"p","container":"c"},"values":[[%d,"600"]]}`, namespace, time.Now().Unix())
			}
		}
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[%s]}}`, strings.TrimPrefix(series, ","))
	}))
	defer server.Close()
	client, err := api.NewClient(api.Config{Address: server.URL, RoundTripper: &exchange{nil, 10_000, http.DefaultTransport}})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := metrics.NewPlan(t.Context(), promv1.NewAPI(client), metrics.Options{End: time.Now(), Since: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	found, err := plan.Read(t.Context(), promv1.NewAPI(client), plan.Batches[0])
	if err != nil || len(plan.Batches) != 1 || len(found.Workloads) != 4 {
		t.Errorf("%d batches, found %+v, %v", len(plan.Batches), found, err)
	}
	large = func(query string) bool { return strings.Contains(query, "demand") && strings.Contains(query, "n1") }
	found, err = plan.Read(t.Context(), promv1.NewAPI(client), plan.Batches[0])
	if err != nil || len(found.Workloads) != 4 || len(found.Warnings) != 1 || !strings.Contains(found.Warnings[0], "what agents have counted is not used: execution: the answer is larger than the limit of 10000 bytes") {
		t.Errorf("without what agents have counted: %+v, %v", found, err)
	}
	large = func(query string) bool { return strings.Contains(query, "n1") }
	if _, err = plan.Read(t.Context(), promv1.NewAPI(client), plan.Batches[0]); err == nil || !strings.Contains(err.Error(), "the answer is larger than the limit") || !strings.Contains(err.Error(), "namespace n1 alone is too large: ask for a shorter time with --since, or for a part of it with --match") {
		t.Errorf("one namespace: %v", err)
	}
}

// TestServerIsElsewhere checks that redirects are not followed, because the other host would get the
// token, and what is said about a server that fails.
func TestServerIsElsewhere(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the other server got a request, with the token %q", r.Header.Get("Authorization"))
	}))
	defer other.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/moved") {
			http.Redirect(w, r, other.URL+"/x", http.StatusTemporaryRedirect)
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"status":"error","errorType":"timeout","error":"query timed out in expression evaluation"}`)
	}))
	defer server.Close()
	for path, want := range map[string]string{
		"/moved": "answers with a redirect to " + other.URL + "/x, which is not followed",
		"":       "query timed out in expression evaluation: ask for less, with --since or --namespace",
	} {
		cmd := &cobra.Command{}
		cmd.SetContext(t.Context())
		o := &Options{}
		o.AddFlags(cmd)
		o.url, o.headers = strings.Replace(server.URL, "//", "//me:secret@", 1)+path, []string{"Authorization: Bearer secret"}
		err := o.Run(cmd, Output{Throttled: .01})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: error %v, want one with %q", path, err, want)
		}
	}
}
