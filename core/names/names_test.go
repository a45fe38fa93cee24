package names

import (
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	for _, test := range []struct {
		text        string
		label, name bool
	}{
		{"web-0", true, true}, {"a", true, true}, {"10.example.com", false, true}, {strings.Repeat("a", 63), true, true}, {strings.Repeat("a", 64), false, true},
		{strings.Repeat("a", 253), false, true}, {strings.Repeat("a", 254), false, false}, {"", false, false}, {"-A", false, false}, {"a-", false, false},
		{"--kubeconfig=x", false, false}, {"A", false, false}, {"a b", false, false}, {"a\n", false, false}, {"../x", false, false}, {"a/b", false, false},
	} {
		if label, name := IsLabel(test.text), IsName(test.text); label != test.label || name != test.name {
			t.Errorf("%q: %v, %v", test.text, label, name)
		}
	}
}
