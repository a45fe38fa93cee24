//go:build linux

package top

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/report/top"
)

func TestParseKeys(t *testing.T) {
	for text, want := range map[string][]top.Key{
		"":                            nil,
		"qj\x03":                      {'q', 'j', 3},
		"\x1b[A\x1b[B\x1bOA\x1bOB":    {top.KeyUp, top.KeyDown, top.KeyUp, top.KeyDown},
		"\x1b[5~\x1b[6~n\x1b[H\x1b[F": {top.KeyPageUp, top.KeyPageDown, 'n', top.KeyHome, top.KeyEnd},
		"\x1b[1;5Cq\x1b[3~\x1b[200~x": {'q', 'x'}, // ctrl-right, delete, and a paste
		"\x1b":                        {0x1b},
		"\x1b[":                       {0x1b, '['},
		"\x1b[12":                     nil, // cut off
	} {
		if diff := cmp.Diff(want, parseKeys(text)); diff != "" {
			t.Errorf("%q: -want +got:\n%s", text, diff)
		}
	}
}

func FuzzParseKeys(f *testing.F) {
	f.Add("\x1b[5~q\x1bOA")
	f.Fuzz(func(t *testing.T, text string) {
		if keys := parseKeys(text); len(keys) > len(text) {
			t.Errorf("%d keys in %q", len(keys), text)
		}
	})
}
