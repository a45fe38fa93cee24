package experiment

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Amount is a number of CPUs, threads, requests or clients. Text such as "50%" is relative to the
// CPUs of the machine. A plain number is meant for a machine with [Config.CPUs], and is scaled down
// on a smaller one.
type Amount struct {
	Value    float64
	Relative bool
}

// On returns the amount on a machine, as a plain number of that machine.
func (a Amount) On(s Scale) Amount {
	if a.Relative {
		return Amount{Value: a.Value * float64(s.CPUs)}
	}
	return Amount{Value: a.Value * s.Factor()}
}

// Count returns an amount of this machine as a whole number, at least 1.
func (a Amount) Count() int { return max(1, int(math.Round(a.Value))) }

// String formats the amount as in a configuration.
func (a Amount) String() string {
	if a.Relative {
		return strconv.FormatFloat(100*a.Value, 'g', -1, 64) + "%"
	}
	return strconv.FormatFloat(a.Value, 'g', -1, 64)
}

// MarshalJSON writes text for relative amounts, and numbers otherwise.
func (a Amount) MarshalJSON() ([]byte, error) {
	if a.Relative {
		return json.Marshal(a.String())
	}
	return json.Marshal(a.Value)
}

// UnmarshalJSON reads a number, or text that ends in "%".
func (a *Amount) UnmarshalJSON(data []byte) error {
	text, err := strconv.Unquote(string(data))
	if err != nil {
		text = string(data)
	}
	number, relative := strings.CutSuffix(text, "%")
	value, err := strconv.ParseFloat(number, 64)
	if err != nil || !(value >= 0) || value > maxAmount {
		return fmt.Errorf("%s: use a number from 0 to %d, or a share of the CPUs such as \"50%%\"", data, maxAmount)
	}
	if relative {
		value /= 100
	}
	*a = Amount{value, relative}
	return nil
}

const maxAmount = 1_000_000

// Scale relates the machine of an experiment to the one of its document.
type Scale struct {
	CPUs int // of this machine
	Full int // of the document's; 0 for no scaling
}

// Factor returns what plain amounts are multiplied with: 1 or less.
func (s Scale) Factor() float64 {
	if s.Full == 0 || s.CPUs >= s.Full {
		return 1
	}
	return float64(s.CPUs) / float64(s.Full)
}

// Duration is a duration whose text has a unit: "100ms".
type Duration struct{ time.Duration }

// MarshalText writes the duration as [time.Duration.String] does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads a duration that is not negative.
func (d *Duration) UnmarshalText(text []byte) (err error) {
	if d.Duration, err = time.ParseDuration(string(text)); err != nil || d.Duration < 0 {
		return fmt.Errorf("%q: use a duration with its unit, such as \"100ms\"", text)
	}
	return nil
}
