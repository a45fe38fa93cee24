package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// A verdict is what a unit showed.
type verdict string

const (
	passed  verdict = "passed"
	failed  verdict = "failed"
	flake   verdict = "flake"   // failed, and passed when it was repeated
	machine verdict = "machine" // the machine failed twice, such as a guest that says nothing
)

// counts are numbers of tests, with subtests.
type counts struct{ Passed, Failed, Skipped int }

func (c *counts) add(other counts) {
	c.Passed += other.Passed
	c.Failed += other.Failed
	c.Skipped += other.Skipped
}

func (c counts) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", c.Passed, c.Failed, c.Skipped)
}

// result is what one unit showed. It is kept in a file.
type result struct {
	Unit    string
	Verdict verdict
	counts
	Commit      string
	Begun       time.Time
	Seconds     float64
	Cached      bool              // all of its packages passed earlier, and nothing has changed
	Disturbance string            // of the machine, while it ran the first time
	First       string            // the first failure
	Skips       map[string]string // reasons by test
	Ran         []string          // tests that passed
}

// event is what "go test -json" prints, one per line.
type event struct {
	Action, Package, Test, Output string
}

// read sums up the events of "go test -json".
func (r *result) read(events io.Reader) error {
	type key struct{ pkg, test string }
	said := map[key]string{}
	failures := map[string]int{}
	cached := map[string]bool{}
	r.Skips, r.Cached = map[string]string{}, true
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			continue // of a compiler
		}
		k := key{strings.TrimPrefix(strings.TrimPrefix(e.Package, module), "/"), e.Test}
		name := strings.TrimSpace(k.pkg + " " + e.Test)
		switch {
		case e.Action == "output":
			said[k] = reason(said[k], e.Output)
			if e.Test == "" && strings.Contains(e.Output, "(cached)") {
				cached[k.pkg] = true
			}
		case e.Test == "" && e.Action == "pass":
			r.Cached = r.Cached && cached[k.pkg]
		case e.Test == "" && e.Action == "fail":
			if failures[k.pkg] == 0 { // such as a package that does not compile, or took too long
				r.fail(name, said[k])
			}
		case e.Test == "":
		case e.Action == "pass":
			r.Passed++
			r.Ran = append(r.Ran, name)
		case e.Action == "skip":
			r.Skipped++
			r.Skips[name] = said[k]
		case e.Action == "fail":
			failures[k.pkg]++
			r.fail(name, said[k])
		}
	}
	return lines.Err()
}

func (r *result) fail(name, why string) {
	r.Failed++
	if r.First == "" {
		r.First = name + ": " + why
	}
	r.Cached = false
}

// ofMachineText begins the messages of tests about failures of the machine.
const ofMachineText = "machine: "

// reason returns the line that says why a test ended as it did, given the one so far and another:
// the first that the test wrote itself, or one about the machine.
func reason(soFar, line string) string {
	line = strings.TrimSpace(line)
	switch {
	case line == "" || strings.HasPrefix(line, "===") || strings.HasPrefix(line, "---"):
		return soFar
	case soFar == "" || strings.Contains(line, ofMachineText) && !strings.Contains(soFar, ofMachineText):
		return line
	}
	return soFar
}

// ofMachine reports whether the machine failed, and not a test.
func (r *result) ofMachine() bool { return strings.Contains(r.First, ofMachineText) }

// nowhere returns the tests that skipped in every unit that had them, with their reasons. Tests
// that run in a virtual machine are known by the end of their name.
func nowhere(results []result) []string {
	skips, ran := map[string]string{}, map[string]bool{}
	for _, r := range results {
		maps.Copy(skips, r.Skips)
		for _, name := range r.Ran {
			ran[name] = true
			for i := range name {
				if name[i] == '/' {
					ran[name[i+1:]] = true
				}
			}
		}
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(skips)) {
		_, test, _ := strings.Cut(name, " ")
		if !ran[name] && !ran[test] {
			names = append(names, name+": "+skips[name])
		}
	}
	return names
}
