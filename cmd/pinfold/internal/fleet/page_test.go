package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/verdict"
	"pinfold.dev/pinfold/test/must"
)

// TestPage: names from the cluster do not become markup or script, and a large fleet has a page of less
// than 5 MB.
func TestPage(t *testing.T) {
	throttled, cpus := .2, .3
	var all []Workload
	for i := range 5000 {
		all = append(all, Workload{fmt.Sprintf("namespace-%d", i%50), fmt.Sprintf("Deployment/service-with-a-long-name-%d", i), "app", 3,
			verdict.Verdict{Action: verdict.Burst, Reason: "it was throttled in 20% of the periods, and uses 30% of its limit: a burst of 100% ends that", CPUs: &cpus, Limit: 1, Throttled: &throttled, Low: .4, High: .5, Advised: 1}, .5})
	}
	all[0].Workload, all[1].Container = `</script><script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`
	var page strings.Builder
	must.Do(t, Page(&page, all, &Request{Since: time.Hour, At: time.Unix(1_800_000_000, 0), Goal: .01}))
	text := page.String()
	if n := strings.Count(text, "<script>"); n != 1 || strings.Contains(text, "<img") || strings.Contains(text, "alert(1)</script>") {
		t.Errorf("%d scripts", n)
	}
	if len(text) > 5_000_000 {
		t.Errorf("%d bytes", len(text))
	}
	for _, outside := range []string{"http://", "https://", `src="`, "@import"} {
		if strings.Contains(text, outside) {
			t.Errorf("it needs something else: %s", outside)
		}
	}
}
