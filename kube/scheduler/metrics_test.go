package scheduler

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"pinfold.dev/pinfold/test/golden"
)

// TestMetrics compares all metrics of a scheduler with a file, without those that are times.
// tools/monitoring checks that deploy/ uses only metrics and labels in that file and the agent's.
func TestMetrics(t *testing.T) {
	s := newScenario(t, DefaultConfiguration,
		"node n1 cores=8", "report n1 cores=8 lease", "renew n1",
		"node n2 cores=8", "report n2 cores=8 ill=observes",
		"node n3 cores=8", "report n3 cores=8 broken",
		"node n4 cores=8", "report n4 cores=8 allocates",
		"node n5 cores=8 down", "report n5 cores=8 lease", "renew n5",
		"pod a cpus=2 on=n1", "pod b cpus=3 on=n1", "pod c cpus=1 on=n1 cpu-policy=static-burst",
		"pod byagent cpus=1 on=n4",
		"pod large cpus=7 on=n1", "pod unobserved cpus=1 on=n2",
		"silence n1", "pod late cpus=1 on=n1")
	page := httptest.NewRecorder()
	promhttp.HandlerFor(s.metrics, promhttp.HandlerOpts{}).ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	timed := regexp.MustCompile(`(?m)^(pinfold_scheduler_(choice_duration_seconds_(bucket\{le="[^+"]*"\}|sum)|longest_wait_seconds)) .*$`)
	golden.Compare(t, "testdata/metrics.prom", timed.ReplaceAllString(page.Body.String(), "$1 1"))
}
