//go:build linux

package why

import (
	"bytes"
	"slices"
	"testing"

	"pinfold.dev/pinfold/cmd/pinfold/internal/groups"
)

// TestOutermost leaves out groups whose threads count for another one.
func TestOutermost(t *testing.T) {
	for _, c := range []struct{ named, want []string }{
		{[]string{"/run/command", "/run", "/running"}, []string{"/run", "/running"}},
		{[]string{"/a/b", "/"}, []string{"/"}},
		{[]string{"/a", "/b"}, []string{"/a", "/b"}},
	} {
		var targets []groups.Target
		for _, group := range c.named {
			targets = append(targets, groups.Target{Group: group})
		}
		var notes bytes.Buffer
		var got []string
		for _, target := range outermost(targets, &notes) {
			got = append(got, target.Group)
		}
		if !slices.Equal(got, c.want) || (notes.Len() > 0) != (len(got) < len(c.named)) {
			t.Errorf("of %q remain %q, want %q, with the notes %q", c.named, got, c.want, notes.String())
		}
	}
}
