package judge

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// TestDocuments compares the tables in docs with what was measured.
func TestDocuments(t *testing.T) {
	const docs = "../../docs/"
	packed := must.Get(os.Open(docs + "results/advice/advice.jsonl.gz"))(t)
	defer packed.Close()
	text := must.Get(io.ReadAll(must.Get(gzip.NewReader(packed))(t)))(t)
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, linesFile), text, 0o600))
	results := must.Get(Open(dir))(t)
	var table strings.Builder
	must.Do(t, results.Markdown(&table))
	golden.Compare(t, docs+"results/advice/table.md", table.String())

	const begin = "| recorded | idle | beside one thread | beside a crowd |\n|---|---|---|---|\n"
	before, rest, ok := strings.Cut(string(must.Get(os.ReadFile(docs+"safety.md"))(t)), begin)
	if !ok {
		t.Fatalf("docs/safety.md has no table %q", begin)
	}
	_, after, _ := strings.Cut(rest, "\n\n")
	golden.Compare(t, docs+"safety.md", before+begin+short(results)+"\n"+after)
	if want := bias(results); !strings.Contains(strings.Join(strings.Fields(after), " "), want) {
		t.Errorf("docs/safety.md does not have %q", want)
	}
}

// bias says how far the predictions are from what was measured, on average.
func bias(r Results) string {
	predicted, n, low, shares := 0., 0., 0, map[Beside]float64{}
	for _, one := range r.sorted() {
		a := one.Advice
		if !a.Enough {
			continue
		}
		predicted, n = predicted+a.ThrottleRatio, n+1
		for _, on := range tried() {
			for _, u := range r.tried(one, on).Units {
				shares[on] += u.Share()
				if a.LowThrottleRatio == 0 {
					low++
				}
			}
		}
	}
	return fmt.Sprintf("%d of %.0f begin at 0%%. On average %s was predicted, and %s (idle) and %s (beside the crowd) were measured",
		low, 2*n, percent(predicted/n), percent(shares[Idle]/n), percent(shares[Crowd]/n))
}

// short returns the rows of a table with one cell for each recording: the predicted interval, and the
// shares measured on the idle machine and beside a crowd.
func short(r Results) string {
	var b strings.Builder
	for i, one := range r.sorted() {
		if i%3 == 0 {
			fmt.Fprintf(&b, "| %s, %s |", one.Program, map[bool]string{false: "no limit", true: "with one"}[one.Limited])
		}
		a, cell := one.Advice, "no advice"
		if a.Enough {
			cell = fmt.Sprintf("%s to %s:", percent(a.LowThrottleRatio), percent(a.HighThrottleRatio))
			for _, on := range tried() {
				cell += " " + strings.Join(r.tried(one, on).shares(), " ") + ","
			}
		}
		if b.WriteString(" " + strings.TrimSuffix(cell, ",") + " |"); i%3 == 2 {
			b.WriteString("\n")
		}
	}
	return b.String()
}
