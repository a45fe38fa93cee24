// Package property checks properties with random cases, of which some must be of certain kinds.
package property

import (
	"testing"

	"pgregory.net/rapid"
)

// tries is how often the cases are drawn. In few cases, as with -short, a kind may be missing by chance.
const tries = 10

// Check checks a property as [rapid.Check] does, again with other cases while missing returns which kind
// of cases there was none of. It fails if that is still so in the end, because the test proves nothing then.
func Check(t *testing.T, property func(*rapid.T), missing func() string) {
	t.Helper()
	for range tries {
		if rapid.Check(t, property); missing() == "" {
			return
		}
	}
	t.Errorf("the test proves nothing: %s", missing())
}
