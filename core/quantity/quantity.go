// Package quantity formats numbers for people, and reads the shares that they write (share.go):
//
//	quantity.Count(2, "core")     // "2 cores"
//	quantity.Share(.25).String()  // "25%"
//	quantity.CPUs(1.5).String()   // "1.5 CPUs"
//	quantity.Age(5 * time.Minute) // "5m"
package quantity

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Count formats a number of things whose plural ends in s.
func Count(n int, one string) string { return fmt.Sprintf("%d %s", n, Plural(n, one)) }

// Plural returns the word for n things whose plural ends in s.
func Plural(n int, one string) string {
	if n == 1 {
		return one
	}
	return one + "s"
}

// CPUs is CPU time per time.
type CPUs float64

// String formats the amount with its unit.
func (c CPUs) String() string {
	if text := c.Amount(); text != "1" {
		return text + " CPUs"
	}
	return "1 CPU"
}

// Amount formats the amount without its unit, with at most two decimal places. Amounts below 0.1
// keep two significant digits.
func (c CPUs) Amount() string {
	places := 2
	if c > 0 && c < .1 {
		places = min(9, 1-int(math.Floor(math.Log10(float64(c)))))
	}
	return Number(float64(c), places)
}

// Fixed formats the amount without its unit, with two decimal places.
func (c CPUs) Fixed() string { return fmt.Sprintf("%.2f", float64(c)) }

// Number formats a number with at most the given decimal places, without trailing zeros.
func Number(x float64, places int) string {
	text := strconv.FormatFloat(x, 'f', places, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// Age formats how long ago something was, in the largest unit of which there are at least two:
// "75s", "12m", "5h", "3d".
func Age(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0fs", d.Truncate(time.Second).Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// Seconds is a Duration that is a number of seconds in JSON.
type Seconds struct{ time.Duration }

// MarshalJSON writes the number of seconds.
func (s Seconds) MarshalJSON() ([]byte, error) { return json.Marshal(s.Seconds()) }

// UnmarshalJSON reads a number of seconds.
func (s *Seconds) UnmarshalJSON(data []byte) error {
	var seconds float64
	if err := json.Unmarshal(data, &seconds); err != nil {
		return err
	}
	s.Duration = time.Duration(seconds * float64(time.Second))
	return nil
}
