package main

import (
	"fmt"
	"io"
	"slices"

	"pinfold.dev/pinfold/report"
)

// groupID says which group of which recording.
type groupID struct{ file, group, name string }

// isCalled reports whether a word of --group means it.
func (id groupID) isCalled(word string) bool { return word == id.group || word == id.name }

// what names it in messages.
func (id groupID) what() string {
	what := id.group
	if id.name != "" {
		what = id.name
	}
	return report.Printable(fmt.Sprintf("%s in %s", what, id.file))
}

// idle is the error for a group that was asked for and used nothing.
func (id groupID) idle() error {
	return fmt.Errorf("%s: %s used no CPU time at all: record while it works", id.file, id.group)
}

// leaveOut tells that a group that used nothing is left out.
func (id groupID) leaveOut(stderr io.Writer) {
	fmt.Fprintln(stderr, report.Printable(fmt.Sprintf("pinfold: %s: %s used no CPU time at all, and is left out", id.file, id.group)))
}

// checkGroups refuses a word of --group that would mean all groups without a name.
func checkGroups(words []string) error {
	if slices.Contains(words, "") {
		return &wrongUsage{"--group is empty: name a group, as 'pinfold trace info' shows them"}
	}
	return nil
}
