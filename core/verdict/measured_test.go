package verdict

import (
	"math"
	"strings"
	"testing"
	"time"
)

// TestMeasured: what agents have measured decides, if they did for most of the time.
func TestMeasured(t *testing.T) {
	windows := func(throttled float64) (all []Window) {
		for range 100 {
			all = append(all, Window{Time: 30 * time.Second, Usage: 6 * time.Second, Limit: .5, Periods: 150, Throttled: throttled, Counted: true})
		}
		return all
	}
	const n = 30_000 // periods in that time
	limits := func(bound, share float64) Counts { return Counts{.1: (1 - share) * n, bound: share * n} }
	for name, test := range map[string]struct {
		throttled float64
		limits    Counts
		want      Action
		advised   float64
		predicted float64
	}{
		"burst":     {30, limits(.5, .2), Burst, .5, 0},
		"raise":     {30, limits(2, .2), Raise, 2, 0},
		"raise, 1%": {30, limits(2, .009), Burst, .5, .009},
		"fine":      {0, limits(.5, .2), Fine, 0, -1},
		"lower":     {0, limits(.25, .2), Lower, .25, 0},
		"too short": {30, Counts{.1: n / 3}, Unknown, 0, -1},
		"none":      {30, Counts{}, Unknown, 0, -1},
	} {
		v := OfMeasured(windows(test.throttled), Measured{test.limits, Counts{.2: n}}, .01)
		if test.want == Unknown { // the models decide
			if strings.Contains(v.Reason, "measured") {
				t.Errorf("%s: %+v", name, v)
			}
			continue
		}
		predicted := -1.
		if v.Predicted != nil {
			predicted = *v.Predicted
		}
		if v.Action != test.want || v.Advised != test.advised || math.Abs(predicted-test.predicted) > 1e-9 {
			t.Errorf("%s: %+v, predicted %v", name, v, predicted)
		}
	}
}
