package tracefile

import (
	"fmt"
	"strconv"
	"strings"
)

// npyType is the type and the count of the values of an .npy file.
type npyType struct {
	integer bool
	size    int // bytes of a value: 4 or 8
	count   int64
}

// parseNPYDict reads the Python dictionary of an .npy header:
//
//	{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }
func parseNPYDict(text string) (npyType, error) {
	var t npyType
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), "{")
	if !ok {
		return t, fmt.Errorf("the header %.40q is no dictionary", text)
	}
	seen := map[string]bool{}
	for {
		rest = strings.TrimSpace(rest)
		if end, ok := strings.CutPrefix(rest, "}"); ok {
			if end != "" {
				return t, fmt.Errorf("the header goes on after its end: %.40q", end)
			}
			break
		}
		key, value, after, err := npyEntry(rest)
		if err != nil {
			return t, err
		}
		if seen[key] {
			return t, fmt.Errorf("the header has %q twice", key)
		}
		seen[key] = true
		if err := t.set(key, value); err != nil {
			return t, err
		}
		rest = after
	}
	for _, key := range []string{"descr", "fortran_order", "shape"} {
		if !seen[key] {
			return t, fmt.Errorf("the header has no %q", key)
		}
	}
	return t, nil
}

// npyEntry cuts one entry off a dictionary. The comma behind the last one may be missing.
func npyEntry(text string) (key, value, rest string, err error) {
	bad := fmt.Errorf("the header has no entry at %.40q", text)
	key, rest, ok := npyString(text)
	if !ok {
		return "", "", "", bad
	}
	if rest, ok = strings.CutPrefix(strings.TrimSpace(rest), ":"); !ok {
		return "", "", "", bad
	}
	rest = strings.TrimSpace(rest)
	end := 0
	switch {
	case strings.HasPrefix(rest, "("):
		end = strings.Index(rest, ")") + 1
	case strings.HasPrefix(rest, "["):
		end = strings.LastIndex(rest, "]") + 1
	case strings.HasPrefix(rest, "'"), strings.HasPrefix(rest, `"`):
		if _, after, ok := npyString(rest); ok {
			end = len(rest) - len(after)
		}
	default:
		end = max(strings.IndexAny(rest, ",}"), 0)
	}
	if end == 0 {
		return "", "", "", bad
	}
	value, rest = strings.TrimSpace(rest[:end]), strings.TrimSpace(rest[end:])
	if after, ok := strings.CutPrefix(rest, ","); ok {
		return key, value, after, nil
	}
	if !strings.HasPrefix(rest, "}") {
		return "", "", "", bad
	}
	return key, value, rest, nil
}

// npyString cuts a quoted string without escapes off a text.
func npyString(text string) (value, rest string, ok bool) {
	for _, quote := range []string{"'", `"`} {
		if after, is := strings.CutPrefix(text, quote); is {
			return strings.Cut(after, quote)
		}
	}
	return "", "", false
}

func (t *npyType) set(key, value string) error {
	switch key {
	case "descr":
		return t.setType(value)
	case "shape":
		return t.setShape(value)
	case "fortran_order":
		if value != "True" && value != "False" { // the same for a vector
			return fmt.Errorf("fortran_order is %s, want True or False", value)
		}
		return nil
	}
	return fmt.Errorf("the header has the unknown key %q", key)
}

func (t *npyType) setType(value string) error {
	switch strings.Trim(value, `'"`) {
	case "<i4":
		t.integer, t.size = true, 4
	case "<i8":
		t.integer, t.size = true, 8
	case "<f4":
		t.size = 4
	case "<f8":
		t.size = 8
	default:
		return fmt.Errorf("the values are of type %s; int32, int64, float32 and float64, little endian, can be read: save a.astype('<f8')", value)
	}
	return nil
}

func (t *npyType) setShape(value string) error {
	inner, ok := strings.CutPrefix(value, "(")
	inner, closed := strings.CutSuffix(inner, ")")
	count, rest, comma := strings.Cut(inner, ",")
	if !ok || !closed || !comma || strings.TrimSpace(rest) != "" || strings.TrimSpace(count) == "" {
		return fmt.Errorf("the shape is %s, want a vector such as (600,): save one column, or a.ravel()", value)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(count), 10, 64)
	if err != nil || n < 0 {
		return fmt.Errorf("the shape is %s, want a vector such as (600,)", value)
	}
	t.count = n
	return nil
}
