package main

import (
	"os"
	"strings"
	"testing"

	"pinfold.dev/pinfold/test/must"
)

// TestDocument compares Pinfold's rows in results.md, without the times, with current
// results for the same free sets. The kubelets' rows take minutes: run the command.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile("results.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, mc := range machines() {
		m := mc.shape.MustBuild()
		c := must.Get(newComparison(m))(t)
		us := c.contenders[0]
		us.choose = pinfold(c.index, 1)
		c.contenders = []contender{us}
		const sets = 1000
		rows := must.Get(c.cases(t.Context(), mc, sets, func(string) {}))(t)
		_, section, found := strings.Cut(string(text), rows[0].heading())
		if !found {
			t.Fatalf("no table %q", rows[0].heading())
		}
		section, _, _ = strings.Cut(section, "**")
		for _, r := range rows {
			line := "| " + strings.Join(r.cells(), " | ") + " | "
			if !strings.Contains(section, line) {
				t.Errorf("%s: want the line %q", mc.name, line)
			}
		}
	}
}
