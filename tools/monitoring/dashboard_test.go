package monitoring

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/heatmap"
	prometheusquery "github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
	"github.com/prometheus/prometheus/promql/promqltest"
)

// classic is the format of dashboards that Grafana 10 reads, too.
type classic = dashboard.Dashboard //nolint:staticcheck // Grafana 12 prefers another format

// readDashboard decodes the dashboard by Grafana's schema: no field is unknown or missing.
func readDashboard(t *testing.T) (d classic) {
	t.Helper()
	known := map[string]bool{}
	for _, panel := range []variants.PanelcfgConfig{heatmap.VariantConfig(), stat.VariantConfig(), table.VariantConfig(), timeseries.VariantConfig()} {
		cog.NewRuntime().RegisterPanelcfgVariant(panel)
		known[panel.Identifier] = true
	}
	text, err := os.ReadFile(files + "dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	strictly(t, &classic{}, text)
	if err := errors.Join(json.Unmarshal(text, &d), d.Validate()); err != nil {
		t.Fatal(err)
	}
	for _, p := range d.Panels {
		if p.Panel != nil && !known[p.Panel.Type] {
			t.Errorf("panel %q is a %s, whose schema this test does not have", *p.Panel.Title, p.Panel.Type)
		}
	}
	return d
}

// strictly checks that text has no unknown field and all required ones. UnmarshalJSONStrict may return
// an empty list of errors, and leaves out panels.
func strictly(t *testing.T, into interface{ UnmarshalJSONStrict(text []byte) error }, text []byte) {
	t.Helper()
	if err := into.UnmarshalJSONStrict(text); err != nil && err.Error() != "" {
		t.Fatal(err)
	}
}

// TestDashboard runs each query of the dashboard on a real server, which has stored an hour of
// metrics of two agents and two schedulers. A query that does not parse fails, and one whose metrics
// or labels do not exist finds nothing.
func TestDashboard(t *testing.T) {
	prometheus, data := find(t), filepath.Join(t.TempDir(), "data")
	storage := promqltest.LoadedStorage(t, hour(t, "pinfold-agent", metrics)+"\n"+hour(t, "pinfold-scheduler", schedulerMetrics))
	if err := storage.Snapshot(data, true); err != nil {
		t.Fatal(err)
	}
	server, _ := serve(t, prometheus, data)
	all := strings.NewReplacer("$__rate_interval", "5m", "$job", "pinfold-agent", "$instance", ".+", "$namespace", ".+", "$pod", ".+")
	queries := 0
	for _, p := range readDashboard(t).Panels {
		if p.Panel == nil {
			continue
		}
		for _, target := range p.Panel.Targets {
			text, err := json.Marshal(target)
			if err != nil {
				t.Fatal(err)
			}
			var query prometheusquery.Dataquery
			strictly(t, &query, text)
			queries++
			if found, problem := ask(t, server, all.Replace(query.Expr)); problem != "" || found == 0 {
				t.Errorf("panel %q, query %s: %d values, %s", *p.Panel.Title, *query.RefId, found, problem)
			}
		}
	}
	if queries == 0 {
		t.Error("the dashboard has no queries")
	}
}

// ask returns the number of values that a query finds at the end of the hour, or why it fails.
func ask(t *testing.T, server, query string) (found int, problem string) {
	t.Helper()
	response, err := http.Get(server + "/api/v1/query?" + url.Values{"query": {query}, "time": {"3600"}}.Encode())
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var answer struct {
		Error string
		Data  struct{ Result []json.RawMessage }
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	return len(answer.Data.Result), answer.Error
}
