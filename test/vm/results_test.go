package vm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/vm/guest"
)

// result is one test of a compiled test binary that ran elsewhere.
type result struct {
	name     string // without the parents'
	action   string // pass, fail or skip; "" when it did not end
	took     time.Duration
	output   strings.Builder
	children []*result
}

// child returns the result of a test below this one.
func (r *result) child(name string) *result {
	for _, c := range r.children {
		if c.name == name {
			return c
		}
	}
	c := &result{name: name}
	r.children = append(r.children, c)
	return c
}

// results returns the tree of tests in the output of a compiled test binary with -test.v=test2json,
// parsed by "go tool test2json".
func results(output string) (*result, error) {
	cmd := exec.Command("go", "tool", "test2json", "-t") // -t for Elapsed
	cmd.Stdin = strings.NewReader(output)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go tool test2json: %w: %s", err, stderr.String())
	}
	root := &result{}
	for d := json.NewDecoder(bytes.NewReader(text)); ; {
		var e struct {
			Action, Test, Output string
			Elapsed              float64 // seconds
		}
		if err := d.Decode(&e); errors.Is(err, io.EOF) {
			return root, nil
		} else if err != nil {
			return nil, fmt.Errorf("go tool test2json: %w", err)
		}
		r := root
		for name := range strings.SplitSeq(e.Test, "/") {
			if name != "" {
				r = r.child(name)
			}
		}
		switch e.Action {
		case "output":
			r.output.WriteString(e.Output)
		case "pass", "fail", "skip":
			r.action, r.took = e.Action, time.Duration(e.Elapsed*float64(time.Second))
		}
	}
}

// replay creates subtests for the results below r. Machines are made for their tests, so a test
// that skips there fails here, unless it was disturbed.
func (r *result) replay(t *testing.T) {
	for _, c := range r.children {
		t.Run(c.name, func(t *testing.T) {
			c.replay(t)
			t.Logf("in the guest: %v\n%s", c.took, c.output.String())
			switch {
			case c.action == "skip" && strings.Contains(c.output.String(), "disturbed"):
				t.Skip("disturbed in the guest")
			case c.action != "pass":
				t.Errorf("in the guest: %s", c.verdict())
			}
		})
	}
}

func (r *result) verdict() string {
	switch r.action {
	case "":
		return "did not end"
	case "skip":
		return "skipped, which nothing in the guest should have to"
	}
	return r.action
}

// replayed creates subtests for the results of a compiled test binary in a machine.
func replayed(t *testing.T, program string, ran map[string]guest.Ran) {
	t.Run(program, func(t *testing.T) {
		p, ok := ran[program]
		if !ok {
			t.Fatal("did not run in the guest")
		}
		root := must.Get(results(p.Output))(t)
		root.replay(t)
		if len(root.children) == 0 {
			t.Error("no test ran in the guest")
		}
		if t.Failed() || p.Failed != "" {
			t.Errorf("in the guest: %s\n%s", p.Failed, root.output.String())
		}
	})
}

// sampleEnv is an environment variable that enables TestSample.
const sampleEnv = "PINFOLD_TEST_SAMPLE"

// TestSample has results of every kind, for TestResults.
func TestSample(t *testing.T) {
	if os.Getenv(sampleEnv) == "" {
		t.Skip("run only by TestResults, in a separate process")
	}
	t.Run("good", func(t *testing.T) { t.Run("below", func(*testing.T) {}) })
	t.Run("bad", func(t *testing.T) { t.Error("wrong") })
	t.Run("absent", func(t *testing.T) { t.Skip("no such thing") })
	t.Run("cut short", func(*testing.T) { os.Exit(3) })
}

// TestResults parses the output of a compiled test binary: this one.
func TestResults(t *testing.T) {
	self := must.Get(os.Executable())(t)
	cmd := exec.Command(self, "-test.run=^TestSample$", "-test.v=test2json")
	cmd.Env = append(os.Environ(), sampleEnv+"=1")
	out, err := cmd.Output()
	if err == nil {
		t.Error("the sample did not fail")
	}
	root := must.Get(results(string(out)))(t)
	got := map[string]string{}
	var visit func(*result, string)
	visit = func(r *result, path string) {
		for _, c := range r.children {
			got[path+c.name] = c.verdict()
			visit(c, path+c.name+"/")
		}
	}
	visit(root, "")
	want := map[string]string{
		"TestSample": "did not end", "TestSample/good": "pass", "TestSample/good/below": "pass", "TestSample/bad": "fail",
		"TestSample/absent": "skipped, which nothing in the guest should have to", "TestSample/cut_short": "did not end",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if out := root.child("TestSample").child("bad").output.String(); !strings.Contains(out, ": wrong\n") {
		t.Errorf("the output of the test that failed: %q", out)
	}
}
