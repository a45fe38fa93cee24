package workloads

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/counters"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
)

// fleet returns a report about n containers.
func fleet(n int) *Report {
	end := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	r := &Report{Begin: end.Add(-7 * 24 * time.Hour), End: end, Goal: counters.DefaultGoal()}
	for i := range n {
		limit, share := float64(1+i%4), .3/float64(1+i)
		c := counters.Container{Limit: limit, Request: limit, Period: 100 * time.Millisecond}
		for day := range 7 {
			periods := share * (1 + float64(day%3)/10) * 864_000
			s := counters.Slice{Seen: 24 * time.Hour, Mean: limit * (.2 + .02*float64(day%5)), High: limit * .4, Periods: 400_000, Throttled: periods, ThrottledSeconds: periods * .08}
			if i%10 == 3 && day == 2 {
				s = counters.Slice{Mean: math.NaN(), Periods: math.NaN()}
			}
			c.Slices = append(c.Slices, s)
		}
		r.Rows = append(r.Rows, Row{fmt.Sprintf("team-%d", i%40), "Deployment", fmt.Sprintf("service-%d</script>", i), "app", counters.Judge([]counters.Container{c}, 24*time.Hour, r.Goal), false})
	}
	r.Sort()
	return r
}

// TestPage checks the page in a browser: the first hundred of many rows are shown at once, with what
// their evidence is made of, and names do not end the script. It has at most a kilobyte a row.
func TestPage(t *testing.T) {
	report, page := fleet(5000), bytes.Buffer{}
	for i := range report.Rows {
		report.Rows[i].Demand, report.Rows[i].Effects = []float64{.1, .2, .9, 1.5}, []counters.Effect{{Limit: 1, Throttled: .02, Bursted: .001}}
	}
	must.Do(t, report.HTML(&page))
	if size := page.Len(); size > 5_000_000 {
		t.Errorf("a page of 5,000 rows has %d bytes, want at most 5 MB", size)
	}
	if n := strings.Count(page.String(), "</script>"); n != 2 {
		t.Errorf("%d ends of scripts, want 2", n)
	}
	if loads := regexp.MustCompile(`(src|href)=`).FindString(page.String()); loads != "" || strings.Count(page.String(), "http") != strings.Count(page.String(), "http-equiv")+1 {
		t.Errorf("the page loads something: %q", loads)
	}
	need.This(t, "a browser")
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skipf("no browser to show the page in: %v; install it with 'apt-get install chromium'", err)
	}
	file := filepath.Join(t.TempDir(), "page.html")
	must.Do(t, os.WriteFile(file, page.Bytes(), 0o600))
	shown := string(must.Get(exec.CommandContext(t.Context(), browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--user-data-dir="+t.TempDir(), "--dump-dom", "file://"+file).Output())(t))
	if n := strings.Count(shown, `aria-expanded="false"`); n != 100 {
		t.Errorf("%d rows are shown, want 100", n)
	}
	for _, want := range []string{"<span class=\"namespace\">team-0/</span>Deployment/service-0&lt;/script&gt; app", `data-name="Throttled" class="alert">32.6%</td>`, "of 5000</output>"} {
		if !strings.Contains(shown, want) {
			t.Errorf("the browser shows no %s in\n%.6000s", want, shown[strings.Index(shown, "<form>"):])
		}
	}
}
