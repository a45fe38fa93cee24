package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

// TestManual checks that the manual names all commands and flags and no others, and that its
// examples can be parsed.
func TestManual(t *testing.T) {
	text, err := os.ReadFile("../../docs/local.md")
	if err != nil {
		t.Fatal(err)
	}
	manual, want, got := string(text), map[string]bool{}, map[string]bool{}
	for _, command := range newRoot().Commands() {
		want["pinfold-local "+command.Name()] = true
		command.Flags().VisitAll(func(f *pflag.Flag) { want["--"+f.Name] = true })
	}
	for _, name := range regexp.MustCompile("`(pinfold-local [a-z]+)`|(--[a-z][a-z-]*)").FindAllStringSubmatch(manual, -1) {
		got[name[1]+name[2]] = true
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/local.md (-want +got):\n%s", diff)
	}
	examples := regexp.MustCompile(`(?m)^pinfold-local (.*)$`).FindAllStringSubmatch(manual, -1)
	if len(examples) == 0 {
		t.Fatal("docs/local.md has no examples")
	}
	for _, example := range examples {
		command, flags, err := newRoot().Find(strings.Fields(example[1]))
		if err == nil {
			err = command.ParseFlags(flags)
		}
		if err == nil && command.Name() == "up" {
			var shapes []string
			if shapes, err = command.Flags().GetStringArray("nodes"); err == nil {
				_, err = nodeGroups(shapes, nil)
			}
		}
		if err != nil {
			t.Errorf("%s: %v", example[0], err)
		}
	}
}
