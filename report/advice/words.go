package advice

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// number has at most so many places, and no zeros at the end.
func number(x float64, places int) string {
	text := strconv.FormatFloat(x, 'f', places, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// amount is a number of CPUs without its unit; small ones keep two digits.
func amount(cpus float64) string {
	if cpus > 0 && cpus < .1 {
		return number(cpus, min(9, 1-int(math.Floor(math.Log10(cpus)))))
	}
	return number(cpus, 2)
}

func cpus(n float64) string {
	if text := amount(n); text != "1" {
		return text + " CPUs"
	}
	return "1 CPU"
}

// percent is a share with three digits, or as many as tell it from all.
func percent(share float64) string {
	digits := 3
	for share < 1 && digits < 9 && strconv.FormatFloat(100*share, 'g', digits, 64) == "100" {
		digits++
	}
	return strconv.FormatFloat(100*share, 'g', digits, 64) + "%"
}

func percentOf(value float64) string { return number(value, 1) + "%" }

func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// lasting is a time to what matters of it.
func lasting(d time.Duration) string {
	switch {
	case d >= time.Minute:
		d = d.Round(time.Second)
	case d >= time.Second:
		d = d.Round(time.Millisecond)
	case d >= time.Millisecond:
		d = d.Round(10 * time.Microsecond)
	}
	return d.String()
}
