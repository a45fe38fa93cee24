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

// column converts the values of a column of a CSV file to those of a record, and names
// itself in errors.
type column struct {
	name       string
	required   bool
	resolution time.Duration // of its times: the finest so far, 0 if there are none
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
		if err != nil {
			return err
		}
		if *v = unixTime(ns); c.resolution == 0 || resolution < c.resolution {
			c.resolution = resolution
		}
		return nil
	default:
		n, err := tabular.ParseInt(text)
		if err != nil {
			return err
		}
		return setInt(value, n)
	}
}

// setInt sets a field to a whole number.
func setInt(value any, n int64) error {
	switch v := value.(type) {
	case *int64:
		*v = n
	case *optional:
		*v = optional(n)
	case **int64:
		*v = &n
	case **uint32:
		*v = new(uint32)
		return setInt(*v, n)
	case *uint32:
		if n < 0 || n > math.MaxUint32 {
			return fmt.Errorf("%d is out of range: want 0 to %d", n, math.MaxUint32)
		}
		*v = uint32(n)
	}
	return nil
}
