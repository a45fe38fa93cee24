// Package busy supports tests that must hold on a busy machine. Such a test measures whether it was
// disturbed by other load, and [Repeat] repeats it if it was. Its assertions are as strict as
// without load.
package busy

import (
	"math"
	"testing"
	"time"
)

// Repeat calls try until it was not disturbed, at most the given number of times. try returns how
// it was disturbed, or "" if it was not, and makes its assertions only in the latter case. If all
// tries were disturbed, Repeat skips the test.
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

// Linear checks that the time of some work grows with its size and not with the square of it.
// prepare returns the work of size n. The least times of n and 8n are compared, which are 8 apart
// for linear work and 64 for quadratic work, in the same run. Other load can only lengthen them, so
// they are measured until the comparison is good, or for 50 times.
func Linear(t testing.TB, n int, prepare func(n int) (work func())) {
	t.Helper()
	const factor, most, tries = 8, 24, 50
	small, large := prepare(n), prepare(factor*n)
	leastSmall, leastLarge := time.Duration(1<<62), time.Duration(1<<62)
	ratio := math.Inf(1)
	for n := 0; n < tries && (n < 3 || ratio > most); n++ {
		leastSmall, leastLarge = min(leastSmall, timeOf(small)), min(leastLarge, timeOf(large))
		ratio = float64(leastLarge) / float64(leastSmall)
	}
	if ratio > most {
		t.Errorf("%d times the size takes %.0f times as long (%v and %v), want at most %d times", factor, ratio, leastSmall, leastLarge, most)
	}
}

func timeOf(work func()) time.Duration {
	begun := time.Now()
	work()
	return time.Since(begun)
}
