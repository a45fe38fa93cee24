package blame

import (
	"testing"
	"time"
)

func TestHistogram(t *testing.T) {
	for d, want := range map[time.Duration]int{1: 0, 1999: 0, 2 * time.Microsecond: 1, 3999: 1, time.Millisecond: 9, 1024 * time.Microsecond: 10, 24 * time.Hour: 31} {
		var h Histogram
		if h.add(d); h[want] != 1 {
			t.Errorf("%v: %v, want one in element %d", d, h, want)
		}
	}
	var h Histogram
	if h.add(0); h != (Histogram{}) {
		t.Errorf("no time counts: %v", h)
	}
}
