package tracefile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// npyType is the type and the number of the values of an .npy file.
type npyType struct {
	kind  byte // 'i' signed, 'u' unsigned, 'f' floating-point, 'm' a signed number of units
	size  int  // bytes of a value: 1, 2, 4 or 8
	order binary.ByteOrder
	unit  time.Duration // 1 except for 'm'
	count int64
}

// Byte order, kind, size, and the unit of a timedelta64.
var npyDescr = regexp.MustCompile(`^([<>|=])(?:([iu])([1248])|(f)([48])|(m)(8)\[(s|ms|us|ns)\])$`)

// parseNPYDict parses the Python dictionary of an .npy header, which is YAML except for its tuples
// and, in old files, the L of its integers:
//
//	{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }
func parseNPYDict(text string) (t npyType, err error) {
	var dict struct {
		Descr        any
		FortranOrder *bool `json:"fortran_order"` // both are the same for a vector
		Shape        []int64
	}
	list := strings.NewReplacer("L,", ",", "L)", "]", "(", "[", ")", "]").Replace(text)
	if err := yaml.UnmarshalStrict([]byte(list), &dict); err != nil || dict.Descr == nil || dict.FortranOrder == nil || dict.Shape == nil {
		return t, fmt.Errorf("the header %.60q does not describe an array: save it with numpy.save", text)
	}
	if err = t.setType(dict.Descr); err == nil {
		err = t.setShape(dict.Shape)
	}
	return t, err
}

func (t *npyType) setType(value any) error {
	descr, ok := value.(string)
	if !ok {
		return errors.New("the values have several fields: save one, such as a['usage_ns']")
	}
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
func (t *npyType) setShape(shape []int64) error {
	text := "(" + strings.Trim(strings.ReplaceAll(fmt.Sprint(shape), " ", ", "), "[]") + ")"
	if len(shape) == 0 {
		return fmt.Errorf("the shape is %s, want a vector such as (600,): save a.ravel()", text)
	}
	t.count = 1
	for _, n := range shape {
		switch {
		case n < 0:
			return fmt.Errorf("the shape is %s, want a tuple such as (600,)", text)
		case n != 1 && t.count != 1:
			return fmt.Errorf("the shape is %s, want a vector such as (600,): save one column, such as a[:%s]", text, strings.Repeat(", 0", len(shape)-1))
		case n != 1:
			t.count = n
		}
	}
	return nil
}
