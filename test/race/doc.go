// Package race reports whether tests run with the race detector ([Enabled]), which adds memory
// allocations and makes programs several times slower.
package race

import "testing"

// SkipLong skips a test with the race detector that would take minutes. It is for tests of
// numbers that come out; others of the package start the same goroutines.
func SkipLong(t testing.TB) {
	t.Helper()
	if Enabled {
		t.Skip("this test takes minutes with the race detector; shorter ones start the same goroutines")
	}
}
