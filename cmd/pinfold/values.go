package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// values is a flag of several values with commas between them; given again, it grows.
type values[T any] struct {
	parse func(string) (T, error)
	kind  string
	each  []T
	given bool // and each is no default
	text  string
}

func (v *values[T]) Type() string   { return v.kind }
func (v *values[T]) String() string { return v.text }
func (v *values[T]) Set(text string) error {
	var added []T
	for word := range strings.SplitSeq(text, ",") {
		value, err := v.parse(strings.TrimSpace(word))
		if err != nil {
			return err
		}
		added = append(added, value)
	}
	if !v.given {
		v.each, v.text, v.given = nil, "", true
	}
	v.each = append(v.each, added...)
	v.text = strings.TrimPrefix(v.text+","+text, ",")
	return nil
}

// newValues returns a flag; defaults hold until it is given.
func newValues[T any](kind, defaults string, parse func(string) (T, error)) *values[T] {
	v := &values[T]{parse: parse, kind: kind}
	if defaults != "" {
		if err := v.Set(defaults); err != nil {
			panic(err) // they are ours
		}
		v.given = false
	}
	return v
}

// parseNumber reads a number, or a percentage as what it is a hundredth of.
func parseNumber(word string) (float64, error) {
	digits, percent := strings.CutSuffix(word, "%")
	x, err := strconv.ParseFloat(digits, 64)
	if err != nil || math.IsInf(x, 0) {
		return 0, errors.New("must be numbers such as 0.7 or 70%")
	}
	if percent {
		x /= 100
	}
	return x, nil
}

// parseCount reads a whole number of at least 1.
func parseCount(word string) (int, error) {
	var n count
	err := n.Set(word)
	return int(n), err
}

// burst is a percentage of the quota, 0 or more; +Inf is unlimited. As a flag it is written
// with its unit: a bare number is ambiguous, except for 0.
type burst float64

var errBurst = errors.New("must be a percentage of the quota, such as 100%, or 0, or inf for an unlimited burst")

func parseBurst(word string) (burst, error) {
	if strings.EqualFold(word, "inf") {
		return burst(math.Inf(1)), nil
	}
	digits, unit := strings.CutSuffix(word, "%")
	x, err := strconv.ParseFloat(digits, 64)
	switch {
	case err != nil || !(x >= 0) || math.IsInf(x, 0):
		return 0, errBurst
	case x == 0:
		return 0, nil // also for -0
	case unit:
		return burst(x), nil
	case x <= 10:
		return 0, fmt.Errorf("has no unit: write %v for %[2]s times the quota, or %[2]s%% for %[2]s percent of it", burst(100*x), digits)
	}
	return 0, fmt.Errorf("has no unit: write %s%% for %[1]s percent of the quota", digits)
}

func (b *burst) Type() string { return "PERCENT" }
func (b *burst) Set(text string) error {
	parsed, err := parseBurst(text)
	if err == nil {
		*b = parsed
	}
	return err
}

func (b burst) String() string {
	switch {
	case math.IsInf(float64(b), 1):
		return "inf"
	case b == 0:
		return "0"
	}
	return strconv.FormatFloat(float64(b), 'g', -1, 64) + "%"
}

// quotas returns the burst in multiples of the quota.
func (b burst) quotas() float64 { return float64(b) / 100 }

// MarshalJSON writes multiples of the quota, or "inf", which JSON has no number for.
func (b burst) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(b), 1) {
		return json.Marshal(b.String())
	}
	return json.Marshal(b.quotas())
}
