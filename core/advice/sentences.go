package advice

import (
	"fmt"
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

// share is a share in percent, with three digits.
func share(x float64) string { return strconv.FormatFloat(100*x, 'g', 3, 64) + "%" }

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// stall is a time to a millisecond.
func stall(d time.Duration) string { return d.Round(time.Millisecond).String() }
