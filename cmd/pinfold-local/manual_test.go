package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestManual checks that the commands and flags that the manual names exist, and that its examples
// can be parsed.
func TestManual(t *testing.T) {
	text, err := os.ReadFile("../../docs/local.md")
	if err != nil {
		t.Fatal(err)
	}
	manual, known := string(text), map[string]bool{"--help": true}
	for _, command := range newRoot().Commands() {
		known["pinfold-local "+command.Name()] = true
		command.Flags().VisitAll(func(f *pflag.Flag) { known["--"+f.Name] = true })
	}
	for _, name := range regexp.MustCompile("`(pinfold-local [a-z]+)`|(--[a-z][a-z-]*)").FindAllStringSubmatch(manual, -1) {
		if !known[name[1]+name[2]] {
			t.Errorf("docs/local.md names %s, which does not exist", name[0])
		}
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
