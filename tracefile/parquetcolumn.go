package tracefile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"pinfold.dev/pinfold/internal/tabular"
)

// parquetColumn reads a column of a Parquet file, of any type that other programs use for its
// values: other widths of numbers, floating-point and decimal numbers, texts, and nulls.
type parquetColumn struct {
	column
	leaf   int // its index in the file
	field  int // its index in the record's values
	pages  parquet.Pages
	page   parquet.Page
	values parquet.ValueReader // nil at the end of a page

	booleans []booleanPage // of the file, those that were not read
	bits     []bool        // values of the current page that were not read, nil if the library decodes them
}

// newParquetColumn returns an error if the field to which value points cannot be converted from the
// column's type. It returns nil if the column has only nulls, and so no type.
func newParquetColumn(name string, leaf parquet.LeafColumn, required bool, field int, value any) (*parquetColumn, error) {
	c := &parquetColumn{column: column{name: name, required: required, decimals: -1}, leaf: leaf.ColumnIndex, field: field}
	kind, ok := leaf.Node.Type().Kind(), !leaf.Node.Repeated()
	if kind < 0 && ok { // the library's type NULL
		return nil, c.setMissing()
	}
	isTime := false
	if logical := leaf.Node.Type().LogicalType(); logical != nil {
		switch l := logical.Value.(type) {
		case *format.TimestampType:
			isTime, c.unit = true, l.Unit.Value.Duration()
		case *format.IntType:
			c.unsigned = !l.IsSigned
		case *format.DecimalType:
			c.decimals = int(l.Scale)
		case *format.StringType, *format.EnumType, *format.JsonType:
		default:
			ok = false
		}
	}
	want := "a whole number"
	switch value.(type) {
	case *unixTime:
		want = "a TIMESTAMP"
		ok = ok && (isTime || kind != parquet.Boolean)
	case *string:
		want = "a text (STRING)"
		ok = ok && !isTime && kind != parquet.Int96 && c.decimals < 0 // pandas makes texts that are all missing DOUBLE
	case *bool:
		want = "BOOLEAN"
		ok = ok && !isTime && kind != parquet.Int96
	default:
		ok = ok && !isTime && kind != parquet.Int96
	}
	if !ok || kind == parquet.FixedLenByteArray && c.decimals < 0 {
		return nil, fmt.Errorf("column %q is of type %v, want %s", name, leaf.Node.Type(), want)
	}
	return c, nil
}

// open starts to read the column's pages in a row group.
func (c *parquetColumn) open(group parquet.RowGroup) error {
	if c.pages != nil {
		if err := c.pages.Close(); err != nil {
			return err
		}
	}
	c.pages = group.ColumnChunks()[c.leaf].Pages()
	return nil
}

// fill sets the column's field in each of the records. n is the number of those that were set.
func (c *parquetColumn) fill(records [][]any, buffer []parquet.Value) (n int, err error) {
	for n < len(records) {
		if c.values == nil {
			if c.page, err = c.pages.ReadPage(); errors.Is(err, io.EOF) {
				err = fmt.Errorf("column %q has fewer values than there are rows", c.name)
			}
			if err != nil {
				return n, err
			}
			c.values = c.page.Values()
			if c.bits = nil; len(c.booleans) > 0 && c.page.NumValues() > 0 {
				c.bits, c.booleans = c.booleans[0].bits, c.booleans[1:]
			}
		}
		read, end := c.values.ReadValues(buffer[:min(len(buffer), len(records)-n)])
		for i := range buffer[:read] {
			if err := c.set(records[n][c.field], &buffer[i]); err != nil {
				return n, err
			}
			n++
		}
		if end == nil {
			continue
		}
		if !errors.Is(end, io.EOF) {
			return n, end
		}
		parquet.Release(c.page) // texts were copied
		c.values = nil
	}
	return n, nil
}

// set sets the field of a record to which value points.
func (c *parquetColumn) set(value any, v *parquet.Value) error {
	if v.IsNull() || v.Kind() == parquet.Double && math.IsNaN(v.Double()) || v.Kind() == parquet.Float && v.Float() != v.Float() {
		return c.setMissing()
	}
	if v.Kind() == parquet.ByteArray && c.decimals < 0 {
		if string(v.ByteArray()) != c.last {
			c.last = string(v.ByteArray())
		}
		return c.setText(value, c.last)
	}
	var err error
	var n int64
	if t, ok := value.(*unixTime); ok {
		var resolution time.Duration
		if n, resolution, err = c.time(v); err == nil {
			c.setTime(t, n, resolution)
		}
	} else if n, err = c.number(v); err == nil {
		err = setInt(value, n)
	}
	if err != nil {
		return fmt.Errorf("column %q: %w", c.name, err)
	}
	return nil
}

func (c *parquetColumn) time(v *parquet.Value) (ns int64, resolution time.Duration, err error) {
	switch v.Kind() {
	case parquet.Int96: // deprecated: nanoseconds of the day, and the Julian day
		const epoch, day = 2440588, int64(24 * time.Hour)
		t := v.Int96()
		days, clock := int64(t[2])-epoch, int64(uint64(t[1])<<32|uint64(t[0]))
		ns = days*day + clock
		if days < -106751 || days > 106750 || clock < 0 || clock >= day {
			return 0, 0, tabular.ErrYear
		}
		return ns, 1, nil
	case parquet.Float, parquet.Double:
		return tabular.FromUnixFloat(float(v))
	}
	n, err := c.number(v)
	if err != nil {
		return 0, 0, err
	}
	if c.unit == 0 {
		return tabular.FromUnix(n)
	}
	if ns = n * int64(c.unit); ns/int64(c.unit) != n {
		return 0, 0, tabular.ErrYear
	}
	return ns, c.unit, nil
}

func float(v *parquet.Value) float64 {
	if v.Kind() == parquet.Float {
		return float64(v.Float())
	}
	return v.Double()
}

// number converts a value of any numeric type to a whole number.
func (c *parquetColumn) number(v *parquet.Value) (n int64, err error) {
	switch v.Kind() {
	case parquet.Boolean:
		b := v.Boolean()
		if c.bits != nil {
			if len(c.bits) == 0 {
				return 0, errCount
			}
			b, c.bits = c.bits[0], c.bits[1:]
		}
		if b {
			n = 1
		}
		return n, nil
	case parquet.Int32:
		if n = int64(v.Int32()); c.unsigned {
			n = int64(uint32(n))
		}
	case parquet.Int64:
		if n = v.Int64(); c.unsigned && n < 0 {
			return 0, fmt.Errorf("%d is out of range: want at most %d", uint64(n), int64(math.MaxInt64))
		}
	case parquet.Float, parquet.Double:
		if n, err = tabular.Round(float(v)); err != nil {
			err = fmt.Errorf("%v: %w", float(v), err)
		}
		return n, err
	default:
		return c.decimal(v.ByteArray())
	}
	if c.decimals > 0 {
		return tabular.Round(float64(n) / math.Pow10(c.decimals))
	}
	return n, nil
}

// decimal converts a decimal number, which is in big-endian two's complement.
func (c *parquetColumn) decimal(b []byte) (int64, error) {
	const maxBytes = 32 // for 76 digits
	if len(b) == 0 || len(b) > maxBytes {
		return 0, fmt.Errorf("a decimal number has %d bytes, want 1 to %d", len(b), maxBytes)
	}
	if c.decimals == 0 && len(b) == 8 {
		return int64(binary.BigEndian.Uint64(b)), nil
	}
	n := new(big.Int).SetBytes(b)
	if b[0] >= 0x80 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	if c.decimals == 0 && n.IsInt64() {
		return n.Int64(), nil
	}
	f, _ := n.Float64()
	return tabular.Round(f / math.Pow10(c.decimals))
}
