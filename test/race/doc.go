// Package race reports whether tests run with the race detector ([Enabled]), which adds memory
// allocations and makes programs several times slower.
package race

import "testing"

// SkipLong skips a test that would take minutes with the race detector. It is meant for tests of
// numerical results whose goroutines other tests of the package cover.
func SkipLong(t testing.TB) {
	t.Helper()
	if Enabled {
		t.Skip("this test takes minutes with the race detector: run it without; shorter tests cover the same goroutines")
	}
}
