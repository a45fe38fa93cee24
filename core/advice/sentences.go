package advice

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// cpuText is a number of CPUs as people write it.
func cpuText(cpus float64) string {
	text := strconv.FormatFloat(cpus, 'f', 2, 64)
	if short := strconv.FormatFloat(cpus, 'g', 2, 64); cpus < .01 && cpus > 0 {
		text = short
	}
	if text == "1.00" {
		return "1 CPU"
	}
	return trimZeros(text) + " CPUs"
}

func trimZeros(text string) string {
	n := len(text)
	for n > 1 && text[n-1] == '0' {
		n--
	}
	if text[n-1] == '.' {
		n--
	}
	return text[:n]
}

// share is a share in percent, with three digits, or as many as tell it from all.
func share(x float64) string {
	digits := 3
	for x < 1 && digits < 9 && strconv.FormatFloat(100*x, 'g', digits, 64) == "100" {
		digits++
	}
	return strconv.FormatFloat(100*x, 'g', digits, 64) + "%"
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// longestAdvised is the longest recording that anybody is asked for.
const longestAdvised = 366 * 24 * time.Hour

// tooFew says that a share of so many periods is too small a number, and how long to record.
func tooFew(n int, period time.Duration, ratio float64) string {
	what := fmt.Sprintf("not enough data: of %s of %v a share of %s is fewer than %d", count(n, "period", "periods"), period, share(ratio), leastThrottled)
	need := math.Ceil(leastThrottled/ratio) * float64(period)
	if need > float64(longestAdvised) {
		return what + ", and no recording is long enough for it; want a larger share"
	}
	return fmt.Sprintf("%s; record %v or more", what, time.Duration(need).Round(time.Second))
}

// stall is a time to a millisecond.
func stall(d time.Duration) string { return d.Round(time.Millisecond).String() }
