package tabular

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Missing reports whether a field has no value: it is empty, or one of the words that pandas,
// DuckDB, R and spreadsheets write instead.
func Missing(text string) bool {
	text = strings.TrimSpace(text)
	if len(text) > 6 {
		return false
	}
	switch strings.ToLower(text) {
	case "", "nan", "nat", "null", "none", "na", "n/a", "#n/a", "<na>", "<null>", `\n`:
		return true
	}
	return false
}

// rounding is how much a whole number may change when a computed one is rounded, relative to it.
const rounding = 1e-6

var errWhole = errors.New("want a whole number, such as 50000000")

// ParseInt parses a whole number. It may be written as a floating-point number, such as 5e7 or
// 50000000.0, and is rounded if it is large: means of nanoseconds have fractions.
func ParseInt(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil {
		return n, nil
	}
	text = strings.TrimSpace(text)
	whole, fraction, _ := strings.Cut(text, ".")
	if strings.Trim(fraction, "0") == "" { // exact beyond 2^53
		if n, err = strconv.ParseInt(whole, 10, 64); err == nil {
			return n, nil
		}
	}
	f, err := parseDecimal(text)
	if err == nil {
		n, err = round(f)
	}
	if err != nil {
		return 0, fmt.Errorf("%.40q: %w", text, err)
	}
	return n, nil
}

// parseDecimal parses a decimal number, but no hexadecimal one, no infinity and no underscores.
func parseDecimal(text string) (float64, error) {
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case strings.Contains(text, ","):
		return 0, errors.New("want a number without commas, such as 50000000 or 5e7")
	case strings.Trim(text, "+-.0123456789eE") != "" || errors.Is(err, strconv.ErrSyntax):
		return 0, errWhole
	case err != nil:
		return 0, errRange
	}
	return f, nil
}

var errRange = errors.New("the number is too large: want less than 9.2e18 (64 bits)")

// round converts a floating-point number to the whole number that it stands for.
func round(f float64) (int64, error) {
	r := math.Round(f)
	switch {
	case !(math.Abs(r) < 1<<63):
		return 0, errRange
	case math.Abs(r-f) > rounding*math.Abs(f):
		return 0, errWhole
	}
	return int64(r), nil
}

// ParseBool parses a truth value: true, false, 1 or 0.
func ParseBool(text string) (bool, error) {
	if b, err := strconv.ParseBool(strings.ToLower(strings.TrimSpace(text))); err == nil {
		return b, nil
	}
	if n, err := ParseInt(text); err == nil && (n == 0 || n == 1) {
		return n == 1, nil
	}
	return false, fmt.Errorf("%.40q: want true or false", text)
}

// ParseTime parses a time and returns it in nanoseconds since 1970. resolution is the unit of its
// last digit. The time is in ISO 8601, with T or a space, and is in UTC if it has no offset; or it
// is a number, see fromUnix.
func ParseTime(text string) (ns int64, resolution time.Duration, err error) {
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil && inYears(t) {
		return t.UnixNano(), isoResolution(text), nil
	}
	text = strings.TrimSpace(text)
	if f, isNumber := parseDecimal(text); isNumber == nil {
		ns, resolution, err = parseUnix(text, f)
	} else {
		ns, resolution, err = parseISO(text)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("%.40q: %w", text, err)
	}
	return ns, resolution, nil
}

var errTime = errors.New("want a time such as 2026-03-01T12:00:00.1Z, or seconds since 1970")

func parseISO(text string) (int64, time.Duration, error) {
	text = strings.TrimSuffix(strings.TrimSuffix(text, " UTC"), " GMT")
	if len(text) > 10 && text[10] == ' ' {
		text = text[:10] + "T" + text[11:]
	}
	for _, layout := range []string{"T15:04:05Z07:00", "T15:04:05", "T15:04:05-07", "T15:04:05-0700", "T15:04:05 Z07:00", "T15:04:05 -0700", "T15:04:05 -07", "T15:04", ""} {
		t, err := time.Parse(time.DateOnly+layout, text)
		if err != nil {
			continue
		}
		if !inYears(t) {
			return 0, 0, errYear
		}
		return t.UnixNano(), isoResolution(text), nil
	}
	return 0, 0, errTime
}

// errYear is the error of a time that nanoseconds since 1970 cannot represent.
var errYear = errors.New("the time is out of range, want a year from 1678 to 2262")

func inYears(t time.Time) bool { return time.Unix(0, t.UnixNano()).Equal(t) }

// isoResolution returns the unit of the last digit of the seconds.
func isoResolution(text string) time.Duration {
	point := strings.IndexAny(text, ".,")
	if point < 0 {
		return time.Second
	}
	resolution := time.Second
	for _, c := range text[point+1:] {
		if c < '0' || c > '9' {
			break
		}
		resolution /= 10
	}
	return max(resolution, 1)
}

// parseUnix parses a number, which is about f. It is exact if the number has no exponent.
func parseUnix(text string, f float64) (int64, time.Duration, error) {
	whole, fraction, point := strings.Cut(text, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || strings.ContainsAny(fraction, "eE") {
		return fromUnixFloat(f)
	}
	ns, unit, err := fromUnix(n)
	if err != nil || !point {
		return ns, unit, err
	}
	_, part := math.Modf(f)
	if p, err := strconv.ParseFloat("0."+fraction, 64); err == nil { // f has lost digits
		part = math.Copysign(p, f)
	}
	sum := ns + int64(math.Round(part*float64(unit)))
	if (sum < ns) != (part < 0) && sum != ns {
		return 0, 0, errYear
	}
	for range fraction {
		unit /= 10
	}
	return sum, max(unit, 1), nil
}

// fromUnix converts a number of seconds, milliseconds, microseconds or nanoseconds since 1970 to
// nanoseconds. Its size decides the unit: below 10^11 (the year 5138) it is seconds, below 10^14
// milliseconds, below 10^17 microseconds.
func fromUnix(n int64) (ns int64, unit time.Duration, err error) {
	unit = unixUnit(math.Abs(float64(n)))
	if ns = n * int64(unit); ns/int64(unit) != n {
		return 0, 0, errYear
	}
	return ns, unit, nil
}

// fromUnixFloat is like fromUnix. The resolution is that of a floating-point number.
func fromUnixFloat(f float64) (ns int64, resolution time.Duration, err error) {
	unit := float64(unixUnit(math.Abs(f)))
	r := math.Round(f * unit)
	if !(math.Abs(r) < 1<<63) {
		return 0, 0, errYear
	}
	return int64(r), time.Duration(math.Ceil((math.Nextafter(math.Abs(f), math.Inf(1)) - math.Abs(f)) * unit)), nil
}

func unixUnit(size float64) time.Duration {
	switch {
	case size < 1e11:
		return time.Second
	case size < 1e14:
		return time.Millisecond
	case size < 1e17:
		return time.Microsecond
	}
	return time.Nanosecond
}
