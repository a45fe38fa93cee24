package tracefile

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"pinfold.dev/pinfold/internal/tabular"
)

// Fields of records whose text differs from that of their type.
type (
	unixTime int64 // nanoseconds since 1970; its text is RFC 3339 in UTC
	optional int64 // 0 is an empty field
)

// formatValue returns the text of a value to which one of the pointers of record.values points.
func formatValue(value any) string {
	switch v := value.(type) {
	case *unixTime:
		return time.Unix(0, int64(*v)).UTC().Format(time.RFC3339Nano)
	case *optional:
		if *v == 0 {
			return ""
		}
		return strconv.FormatInt(int64(*v), 10)
	case *int64:
		return strconv.FormatInt(*v, 10)
	case **int64:
		if *v == nil {
			return ""
		}
		return strconv.FormatInt(**v, 10)
	case **uint32:
		if *v == nil {
			return ""
		}
		return strconv.FormatUint(uint64(**v), 10)
	case *bool:
		return strconv.FormatBool(*v)
	case *string:
		return *v
	}
	panic(fmt.Sprintf("tracefile: a column of type %T", value))
}

// column converts the values of a column of a CSV or Parquet file to those of a record, and names
// itself in errors.
type column struct {
	name       string
	required   bool
	resolution time.Duration // of its times: the finest so far, 0 if there are none

	// For Parquet.
	unit     time.Duration // of timestamps; 0 if the type is none
	unsigned bool
	decimals int    // digits after the point of a decimal number, -1 if it is none
	last     string // the last text, which often repeats
}

var errMissing = errors.New("the value is missing, and the column is required")

// setText sets the field of a record to which value points, as record.values returns it. A missing
// value leaves it as it is, 0 or nil.
func (c *column) setText(value any, text string) error {
	if text == "" {
		return c.setMissing()
	}
	if err := c.parse(value, text); err != nil {
		if tabular.Missing(text) {
			return c.setMissing()
		}
		return fmt.Errorf("column %q: %w", c.name, err)
	}
	return nil
}

func (c *column) setMissing() error {
	if c.required {
		return fmt.Errorf("column %q: %w", c.name, errMissing)
	}
	return nil
}

func (c *column) parse(value any, text string) error {
	switch v := value.(type) {
	case *string:
		if tabular.Missing(text) {
			return errMissing
		}
		*v = text
		return nil
	case *bool:
		b, err := tabular.ParseBool(text)
		*v = b
		return err
	case *unixTime:
		ns, resolution, err := tabular.ParseTime(text)
		if err == nil {
			c.setTime(v, ns, resolution)
		}
		return err
	default:
		n, err := tabular.ParseInt(text)
		if err != nil {
			return err
		}
		return setInt(value, n)
	}
}

func (c *column) setTime(v *unixTime, ns int64, resolution time.Duration) {
	if *v = unixTime(ns); c.resolution == 0 || resolution < c.resolution {
		c.resolution = resolution
	}
}

// setInt sets a field to a whole number.
func setInt(value any, n int64) error {
	minimum, maximum := int64(math.MinInt64), int64(math.MaxInt64)
	switch v := value.(type) {
	case *int64:
		*v = n
	case *optional:
		*v = optional(n)
	case *int32:
		minimum, maximum = math.MinInt32, math.MaxInt32
		*v = int32(n)
	case **int64:
		*v = &n
	case **uint32:
		*v = new(uint32)
		return setInt(*v, n)
	case *uint32:
		minimum, maximum = 0, math.MaxUint32
		*v = uint32(n)
	case *bool:
		minimum, maximum = 0, 1
		*v = n == 1
	default:
		return fmt.Errorf("%d is a number: want a text", n)
	}
	if n < minimum || n > maximum {
		return fmt.Errorf("%d is out of range: want %d to %d", n, minimum, maximum)
	}
	return nil
}
