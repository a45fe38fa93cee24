// Package need separates the tests whose verdict depends on the commit alone from all others.
//
// The former are the deterministic class: "make test" runs them with -short, and a failure is a
// defect. Every other test, and one that takes long, names what it needs with [This], which skips
// it under -short. test/suite runs those one at a time, and tells a defect from a disturbed machine.
package need

import "testing"

// This skips the test under -short. It names what the test's verdict depends on besides the commit:
// a component that is started, such as "a real node", or the speed of this machine.
func This(t testing.TB, what string) {
	t.Helper()
	if testing.Short() {
		t.Skipf("needs %s: run without -short", what)
	}
}
