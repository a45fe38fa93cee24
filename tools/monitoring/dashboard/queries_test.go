package dashboard

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/promqltest"
)

// TestQueriesHaveData runs each query of the dashboard in Prometheus' engine, on an hour of metrics
// of two agents. A query with labels that do not match would find nothing.
func TestQueriesHaveData(t *testing.T) {
	storage := promqltest.LoadedStorage(t, hour(t, "../../../agent/testdata/metrics.prom"))
	engine := promqltest.NewTestEngine(t, false, 5*time.Minute, 1_000_000)
	all := strings.NewReplacer("$__rate_interval", "5m", "$job", "pinfold-agent", "$instance", ".+", "$namespace", ".+", "$pod", ".+")
	for _, p := range New().Panels {
		for _, target := range p.Targets {
			query, err := engine.NewInstantQuery(t.Context(), storage, nil, all.Replace(target.Expr), time.Unix(3600, 0))
			if err != nil {
				t.Errorf("panel %q, query %s: %v", p.Title, target.RefID, err)
				continue
			}
			result := query.Exec(t.Context())
			if vector, err := result.Vector(); err != nil || len(vector) == 0 {
				t.Errorf("panel %q, query %s: %d values, %v", p.Title, target.RefID, len(vector), err)
			}
			query.Close()
		}
	}
}

// hour returns a script that loads an hour of metrics. Gauges are constant. Counters grow in each
// minute by their value plus one, so that all grow.
func hour(t *testing.T, file string) string {
	t.Helper()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	script := "load 1m\n"
	add := func(name, labels, values string) {
		for _, node := range []string{"n1", "n2"} {
			script += fmt.Sprintf("  %s{job=\"pinfold-agent\",instance=%q%s} %s\n", name, node, labels, values)
		}
	}
	add("up", "", "1x60")
	add("process_cpu_seconds_total", "", "0+0.5x60")
	kind := ""
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "# TYPE ") {
			kind = line[strings.LastIndex(line, " ")+1:]
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		space := strings.LastIndex(line, " ")
		name, labels, _ := strings.Cut(strings.TrimSuffix(line[:space], "}"), "{")
		value, err := strconv.ParseFloat(line[space+1:], 64)
		if err != nil {
			t.Fatal(err)
		}
		if labels != "" {
			labels = "," + labels
		}
		if kind == "gauge" {
			add(name, labels, fmt.Sprintf("%gx60", value))
		} else {
			add(name, labels, fmt.Sprintf("0+%gx60", value+1))
		}
	}
	return script
}
