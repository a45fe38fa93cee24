package advice

import (
	"fmt"
	"math"
	"time"

	"pinfold.dev/pinfold/core/quantity"
)

// longestAdvised is the longest recording that anybody is asked for.
const longestAdvised = 366 * 24 * time.Hour

// tooFew says that a share of so many periods is too small a number, and how long to record.
func tooFew(n int, period time.Duration, ratio float64) string {
	what := fmt.Sprintf("not enough data: of %s of %v a share of %s is fewer than %d", quantity.Count(n, "period"), period, quantity.Share(ratio), leastThrottled)
	need := math.Ceil(leastThrottled/ratio) * float64(period)
	if need > float64(longestAdvised) {
		return what + ", and no recording is long enough for it; want a larger share"
	}
	return fmt.Sprintf("%s; record %v or more", what, time.Duration(need).Round(time.Second))
}

// stall is a time to a millisecond.
func stall(d time.Duration) string { return d.Round(time.Millisecond).String() }
