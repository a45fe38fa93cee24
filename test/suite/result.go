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
	output := map[key]string{}
	failures := map[string]int{}
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
			output[k] += e.Output
		case e.Test == "" && e.Action == "pass":
			r.Cached = r.Cached && strings.Contains(output[k], "(cached)")
		case e.Test == "" && e.Action == "fail":
			if failures[k.pkg] == 0 { // such as a package that does not compile, or took too long
				r.fail(name, output[k])
			}
		case e.Test == "":
		case e.Action == "pass":
			r.Passed++
			r.Ran = append(r.Ran, name)
		case e.Action == "skip":
			r.Skipped++
			r.Skips[name] = reason(output[k])
		case e.Action == "fail":
			failures[k.pkg]++
			r.fail(name, output[k])
		}
	}
	return lines.Err()
}

func (r *result) fail(name, output string) {
	r.Failed++
	if r.First == "" {
		r.First = name + ": " + reason(output)
	}
	r.Cached = false
}

// reason returns the first line of a test's output that it wrote itself.
func reason(output string) string {
	for line := range strings.SplitSeq(output, "\n") {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "===") && !strings.HasPrefix(line, "---") {
			return line
		}
	}
	return "no output"
}

// ofMachine reports whether the machine failed, and not a test.
func (r *result) ofMachine() bool { return strings.Contains(r.First, "machine: ") }

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
