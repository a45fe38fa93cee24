package workloads

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"math"
	"regexp"
	"testing"

	"pinfold.dev/pinfold/core/counters"
	"pinfold.dev/pinfold/test/must"
)

// TestHostile checks that names and amounts that a tenant's series can have spoil neither the rows of
// others nor the program that reads them.
func TestHostile(t *testing.T) {
	r := fleet(1)
	v := counters.Verdict{Reason: "because", Mean: 1e303, Limit: 1e39, Request: math.Inf(1), OfAll: counters.Interval{Value: .5, Low: math.NaN(), High: math.Inf(1)},
		Counted: 1, NewLimit: &counters.Change{To: math.Inf(1), Reason: "because"}}
	r.Rows = append(r.Rows, Row{Namespace: "=HYPERLINK(1)", Kind: "Deployment", Name: "+a\x1b]0;b", Container: "-1", Verdict: v})
	must.Get(json.Marshal(r.JSON()))(t)
	var out bytes.Buffer
	must.Do(t, r.CSV(&out))
	lines := must.Get(csv.NewReader(&out).ReadAll())(t)
	if got := lines[2]; got[0] != "'=HYPERLINK(1)" || got[2] != "'+a?]0;b" || got[3] != "'-1" {
		t.Errorf("names are %q", got[:4])
	}
	out.Reset()
	must.Do(t, r.HTML(&out))
	data := regexp.MustCompile(`(?s)<script type="application/json"[^>]*>(.*?)</script>`).FindSubmatch(out.Bytes())
	if data == nil || !json.Valid(data[1]) {
		t.Errorf("the page has no valid data: %.300s", data)
	}
}
