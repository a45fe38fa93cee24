package advice

import "testing"

// TestDecide: what keeps the present limit comes before another one.
func TestDecide(t *testing.T) {
	for _, c := range []struct {
		name                         string
		present, presentBurst, burst float64 // the burst that reaches the goal; -1: none does
		want                         Decision
		suffices, saves              bool
	}{
		{"no limit", 0, 0, 0, Decision{LimitCPUs: .6, BurstPercent: 50}, false, false},
		{"throttled, and a burst ends that", 1, 0, 30, Decision{LimitCPUs: 1, BurstPercent: 30, Repairs: true}, false, true},
		{"throttled, and a larger burst ends that", 1, 10, 30, Decision{LimitCPUs: 1, BurstPercent: 30, Repairs: true}, false, true},
		{"the burst is more than may be set", 1, 0, 60, Decision{LimitCPUs: .6, BurstPercent: 50}, false, true},
		{"no burst suffices", .5, 0, -1, Decision{LimitCPUs: .6, BurstPercent: 50}, false, false},
		{"not throttled", 1, 0, 0, Decision{LimitCPUs: .6, BurstPercent: 50}, true, true},
		{"not throttled with its burst", .6, 50, 50, Decision{LimitCPUs: .6, BurstPercent: 50, Keeps: true}, true, false},
		{"not throttled with more burst than may be set", .4, 100, 70, Decision{LimitCPUs: .4, BurstPercent: 100, Keeps: true}, true, false},
	} {
		goal := DefaultGoal()
		goal.Burst = .5
		a := Container{Recorded: Recorded{LimitCPUs: c.present, BurstPercent: c.presentBurst},
			LimitWithBurst: Limit{Finding: Finding{Enough: true}, LimitCPUs: .6, BurstPercent: 50},
			Burst:          Burst{Finding: Finding{Enough: true}, BurstPercent: max(0, c.burst), ReachesGoal: c.burst >= 0}}
		if d, ok := a.Decide(goal); !ok || d != c.want || a.Suffices() != c.suffices || a.Saves() != c.saves {
			t.Errorf("%s: %+v, suffices %v, saves %v; want %+v, %v, %v", c.name, d, a.Suffices(), a.Saves(), c.want, c.suffices, c.saves)
		}
		a.Burst.Enough, a.LimitWithBurst.Enough = false, false
		if d, ok := a.Decide(goal); ok {
			t.Errorf("%s: %+v without enough data", c.name, d)
		}
	}
}
