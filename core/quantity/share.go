package quantity

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Share is a fraction of a whole, usually from 0 to 1.
type Share float64

// String formats the share in percent with three digits, or as many as distinguish it from 100%.
func (s Share) String() string {
	digits, text := 3, s.Digits(3)
	for s < 1 && text == "100%" && digits < 12 { // more digits would show rounding errors
		digits++
		text = s.Digits(digits)
	}
	return text
}

// Digits formats the share in percent with at most n digits.
func (s Share) Digits(n int) string { return strconv.FormatFloat(float64(100*s), 'g', n, 64) + "%" }

// Whole formats the share in whole percent. Only 0 is "0%".
func (s Share) Whole() string {
	if s > 0 && s < .005 {
		return "<1%"
	}
	return fmt.Sprintf("%.0f%%", float64(100*s))
}

// ParseShare parses a share of at most most as users write it, everywhere: "5%" or "0.05". A number
// of 1 or more without a unit is rejected, because "5" may be 5% or 500%.
func ParseShare(text string, most Share) (Share, error) {
	x, percent, ok := parse(text)
	share := Share(x)
	if percent {
		share = Share(x / 100)
	}
	switch bare := ok && !percent && x >= 1; {
	case !ok:
		return 0, errors.New("must be a share such as 5% or 0.05")
	case bare && share <= most:
		return 0, fmt.Errorf("has no unit: write %s%% or %s", text, share.Text())
	case bare && share <= 100*most:
		return 0, fmt.Errorf("has no unit: write %s%%", text)
	case share > most:
		return 0, fmt.Errorf("must be at most %s", most.Text())
	}
	return share, nil
}

// ParsePercent parses the value of a setting whose name ends in "percent": "5%" or "5". A number
// between 0 and 1 without a unit is rejected, because "0.05" may be 0.05% or, as a share, 5%.
func ParsePercent(text string) (float64, error) {
	x, percent, ok := parse(text)
	switch {
	case !ok:
		return 0, errors.New("must be a percentage such as 5%")
	case !percent && x > 0 && x < 1:
		return 0, fmt.Errorf("has no unit: write %s%% or %s", text, Share(x).Text())
	}
	return x, nil
}

// parse reads a number of at least 0, and whether it is in percent.
func parse(text string) (x float64, percent, ok bool) {
	digits, percent := strings.CutSuffix(text, "%")
	x, err := strconv.ParseFloat(digits, 64)
	return math.Abs(x), percent, err == nil && x >= 0 && !math.IsInf(x, 0) // -0 is 0
}

// Text formats the share with as many digits as show no rounding errors.
func (s Share) Text() string { return s.Digits(15) }

// UnmarshalJSON reads a number, or text as [ParseShare] does.
func (s *Share) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) != nil { // no text
		if x, err := strconv.ParseFloat(string(data), 64); err == nil {
			*s = Share(x)
			return nil
		}
	}
	value, err := ParseShare(text, Share(math.Inf(1)))
	if err != nil {
		return fmt.Errorf("%s: %w", data, err)
	}
	*s = value
	return nil
}
