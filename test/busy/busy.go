// Package busy supports tests that must hold on a busy machine. Such a test measures whether it was
// disturbed by other load, and [Repeat] repeats it if it was. Its assertions are as strict as
// without load.
package busy

import "testing"

// Repeat calls try until it was not disturbed, at most the given number of times. try returns how it
// was disturbed, or "" if it was not, and makes its assertions only in the latter case. If all tries
// were disturbed, Repeat skips the test.
func Repeat(t testing.TB, most int, try func() (disturbed string)) {
	t.Helper()
	disturbed := ""
	for n := range most {
		if disturbed = try(); disturbed == "" {
			return
		}
		t.Logf("disturbed, try %d of %d: %s", n+1, most, disturbed)
	}
	t.Skipf("this machine is too busy: all %d tries were disturbed, the last one because %s: run this test with less other load", most, disturbed)
}
