package advice

import (
	"time"

	"pinfold.dev/pinfold/core/quantity"
)

func percentOf(value float64) string { return quantity.Number(value, 1) + "%" }

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
