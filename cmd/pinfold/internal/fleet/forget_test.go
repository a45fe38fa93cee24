package fleet

import (
	"testing"

	"pinfold.dev/pinfold/core/counters"
	"pinfold.dev/pinfold/report/workloads"
)

// TestForget checks that nothing follows from requests and limits that a server does not have.
func TestForget(t *testing.T) {
	found := func() *workloads.Report {
		return &workloads.Report{Rows: []workloads.Row{
			{Verdict: counters.Verdict{Finding: counters.Unlimited, NewRequest: &counters.Change{To: 1}, FreedCPUs: -1}},
			{Verdict: counters.Verdict{Finding: counters.Fits, NewRequest: &counters.Change{To: 1}, FreedCPUs: -1}},
		}}
	}
	r := found()
	if forget(r, false, false); r.Rows[0].Finding != counters.Unlimited || r.Rows[0].NewRequest == nil {
		t.Errorf("known: %+v", r.Rows)
	}
	r = found()
	if forget(r, true, true); r.Rows[0].Finding != counters.Unknown || r.Rows[1].Finding != counters.Fits {
		t.Errorf("limits are unknown: %+v", r.Rows)
	}
	for _, row := range r.Rows {
		if row.NewRequest != nil || row.FreedCPUs != 0 {
			t.Errorf("requests are unknown: %+v", row)
		}
	}
}
