package tracefile

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// npyType is the type and the number of the values of an .npy file.
type npyType struct {
	kind  byte // 'i' signed, 'u' unsigned, 'f' floating-point, 'm' a signed number of units
	size  int  // bytes of a value: 1, 2, 4 or 8
	order binary.ByteOrder
	unit  time.Duration // 1 except for 'm'
	count int64
}

// An entry of a Python dictionary, up to the comma or the brace after it. A value is a tuple, a
// list, a text or a word.
var npyEntry = regexp.MustCompile(`^\s*(?:'([^']*)'|"([^"]*)")\s*:\s*(\([^)]*\)|\[.*\]|'[^']*'|"[^"]*"|[^\s,{}()\[\]'"]+)\s*(,\s*\}?|\})`)

var npyShape = regexp.MustCompile(`^\(\s*(?:[0-9]+L?\s*,\s*)*(?:[0-9]+L?\s*)?\)$`)

// Byte order, kind, size, and the unit of a timedelta64.
var npyDescr = regexp.MustCompile(`^([<>|=])(?:([iu])([1248])|(f)([48])|(m)(8)\[(s|ms|us|ns)\])$`)

// parseNPYDict parses the Python dictionary of an .npy header:
//
//	{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }
func parseNPYDict(text string) (npyType, error) {
	var t npyType
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), "{")
	if !ok {
		return t, fmt.Errorf("the header %.40q is not a dictionary", text)
	}
	seen := map[string]bool{}
	for end := false; !end; {
		m := npyEntry.FindStringSubmatch(rest)
		if m == nil {
			return t, fmt.Errorf("the header has no valid entry at %.40q", rest)
		}
		key := m[1] + m[2]
		if seen[key] {
			return t, fmt.Errorf("the header has %q twice", key)
		}
		seen[key] = true
		if err := t.set(key, m[3]); err != nil {
			return t, err
		}
		rest, end = rest[len(m[0]):], strings.HasSuffix(m[4], "}")
	}
	if rest != "" {
		return t, fmt.Errorf("the header continues after its end: %.40q", rest)
	}
	for _, key := range []string{"descr", "fortran_order", "shape"} {
		if !seen[key] {
			return t, fmt.Errorf("the header has no %q", key)
		}
	}
	return t, nil
}

func (t *npyType) set(key, value string) error {
	switch key {
	case "descr":
		return t.setType(strings.Trim(value, `'"`))
	case "shape":
		return t.setShape(value)
	case "fortran_order":
		if value != "True" && value != "False" { // these are the same for a vector
			return fmt.Errorf("fortran_order is %s, want True or False", value)
		}
	default:
		return fmt.Errorf("the header has the unknown key %q", key)
	}
	return nil
}

func (t *npyType) setType(descr string) error {
	m := npyDescr.FindStringSubmatch(descr)
	if m == nil {
		return fmt.Errorf("the values have type %s, want integers (nanoseconds) or floating-point numbers (CPUs): %s", descr, npyRemedy(descr))
	}
	t.kind, t.size, t.order, t.unit = (m[2] + m[4] + m[6])[0], int((m[3] + m[5] + m[7])[0]-'0'), binary.LittleEndian, 1
	if m[1] == ">" {
		t.order = binary.BigEndian
	}
	if t.kind == 'm' {
		t.unit = map[string]time.Duration{"s": time.Second, "ms": time.Millisecond, "us": time.Microsecond, "ns": 1}[m[8]]
	}
	return nil
}

// npyRemedy says how to save values of a type that is not read. a is the array.
func npyRemedy(descr string) string {
	switch {
	case strings.HasPrefix(descr, "["):
		return "save one field, such as a['usage_ns']"
	case strings.Contains(descr, "M8"):
		return "these are dates; save the CPU time"
	case strings.Contains(descr, "f"):
		return "save a.astype('<f8')"
	case strings.Contains(descr, "m8"):
		return "save a.astype('<m8[ns]')"
	}
	return "save a.astype('<i8') if they are nanoseconds, or a.astype('<f8') if they are CPUs"
}

// setShape accepts a vector, also as a row or a column of a matrix.
func (t *npyType) setShape(shape string) error {
	if !npyShape.MatchString(shape) {
		return fmt.Errorf("the shape is %.40s, want a tuple such as (600,)", shape)
	}
	t.count = 1
	dimensions := strings.FieldsFunc(shape, func(c rune) bool { return !unicode.IsDigit(c) })
	for _, text := range dimensions {
		n, err := strconv.ParseInt(text, 10, 64)
		switch {
		case err != nil:
			return fmt.Errorf("the shape is %.40s, which is too large", shape)
		case n != 1 && t.count != 1:
			return fmt.Errorf("the shape is %s, want a vector such as (600,): save one column, such as a[:%s]", shape, strings.Repeat(", 0", len(dimensions)-1))
		case n != 1:
			t.count = n
		}
	}
	if len(dimensions) == 0 {
		return fmt.Errorf("the shape is %s, want a vector such as (600,): save a.ravel()", shape)
	}
	return nil
}
