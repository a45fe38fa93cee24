//go:build race

package race

// Enabled reports whether the tests run with the race detector.
const Enabled = true
