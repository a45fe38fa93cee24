package model

import (
	"fmt"
	"strings"
	"testing"
)

// FuzzPeriods parses any text. Accepted values are at least 1.
func FuzzPeriods(f *testing.F) {
	for _, text := range []string{"1", "1e6", "1.5", "9e18", "-1", "0", "1e400", strings.Repeat("9", 30)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := parsePeriods(text)
		if err != nil {
			return
		}
		if again, err := parsePeriods(fmt.Sprint(n)); n < 1 || err != nil || again != n {
			t.Fatalf("%q is read as %d, which is read as %d, %v", text, n, again, err)
		}
	})
}
