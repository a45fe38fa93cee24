package demo

import "testing"

// TestFleetFits checks that a machine with two CPUs has room for the pods of a fleet, also beside the
// control plane, and that their names tell them apart.
func TestFleetFits(t *testing.T) {
	var requests, used float64
	names := map[string]bool{}
	for _, a := range fleet() {
		requests += a.request * float64(a.replicas)
		switch {
		case a.threads > 0:
			used += a.limit
		case a.requests > 0:
			used += a.cpu.Seconds() / a.every.Seconds() * float64(a.requests*a.replicas)
		}
		if names[a.name] {
			t.Errorf("two workloads are called %s", a.name)
		}
		names[a.name] = true
	}
	if podsOf(fleet()) != 12 || requests > 1.6 || used > 1.3 {
		t.Errorf("%d pods request %.2f CPUs and use %.2f; want 12, at most 1.6 and 1.3", podsOf(fleet()), requests, used)
	}
}
