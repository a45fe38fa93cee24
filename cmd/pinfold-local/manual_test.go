package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"pinfold.dev/pinfold/test/must"
)

// TestManual checks that the flags exist that the manual names by themselves, and that the shapes of
// its examples can be parsed. TestDocuments checks its command lines.
func TestManual(t *testing.T) {
	manual, known := string(must.Get(os.ReadFile("../../docs/local.md"))(t)), map[string]bool{}
	for _, command := range newRoot().Commands() {
		command.Flags().VisitAll(func(f *pflag.Flag) { known["--"+f.Name] = true })
	}
	for _, name := range regexp.MustCompile("`(--[a-z][a-z-]*)").FindAllStringSubmatch(manual, -1) {
		if !known[name[1]] {
			t.Errorf("docs/local.md names %s, which does not exist", name[1])
		}
	}
	examples := regexp.MustCompile(`(?m)^(?:sudo bin/)?pinfold-local up (.*)$`).FindAllStringSubmatch(manual, -1)
	for _, example := range examples {
		up := newUp()
		must.Do(t, up.ParseFlags(strings.Fields(example[1])))
		must.Get(nodeGroups(must.Get(up.Flags().GetStringArray("nodes"))(t), nil))(t)
	}
	if len(examples) == 0 || len(known) == 0 {
		t.Errorf("docs/local.md has %d examples, the program %d flags", len(examples), len(known))
	}
}
