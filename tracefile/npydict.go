package tracefile

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// npyType is the type and the number of the values of an .npy file.
type npyType struct {
	integer bool
	size    int // bytes of a value: 4 or 8
	count   int64
}

// An entry of a Python dictionary, up to the comma or the brace after it. A value is a tuple, a
// list, a text or a word.
var npyEntry = regexp.MustCompile(`^\s*(?:'([^']*)'|"([^"]*)")\s*:\s*(\([^)]*\)|\[.*\]|'[^']*'|"[^"]*"|[^\s,{}()\[\]'"]+)\s*(,\s*\}?|\})`)

var npyShape = regexp.MustCompile(`^\(\s*([0-9]+)\s*,\s*\)$`)

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
		t.integer = strings.Contains(value, "i")
		switch strings.Trim(value, `'"`) {
		case "<i4", "<f4":
			t.size = 4
		case "<i8", "<f8":
			t.size = 8
		default:
			return fmt.Errorf("the values have type %s, want int32, int64, float32 or float64 in little endian: save a.astype('<f8')", value)
		}
	case "shape":
		m := npyShape.FindStringSubmatch(value)
		if m == nil {
			return fmt.Errorf("the shape is %s, want a vector such as (600,): save one column, or a.ravel()", value)
		}
		var err error
		if t.count, err = strconv.ParseInt(m[1], 10, 64); err != nil {
			return fmt.Errorf("the shape is %s: %w", value, err)
		}
	case "fortran_order":
		if value != "True" && value != "False" { // these are the same for a vector
			return fmt.Errorf("fortran_order is %s, want True or False", value)
		}
	default:
		return fmt.Errorf("the header has the unknown key %q", key)
	}
	return nil
}
