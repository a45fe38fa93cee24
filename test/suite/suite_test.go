package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// TestRead reads what "go test -json" printed, in testdata: a test that fails below another, one
// that skips, a package that was ended by its timeout, and one that passed earlier.
func TestRead(t *testing.T) {
	var r result
	must.Do(t, r.read(must.Get(os.Open("testdata/events.json"))(t)))
	want := result{
		counts: counts{Passed: 2, Failed: 3, Skipped: 1},
		First:  "agent TestA/fails: a_test.go:12: the pod has no CPUs",
		Skips:  map[string]string{"agent TestB": "b_test.go:7: needs a real node: run without -short"},
		Ran:    []string{"core/cpuset TestC/one", "core/cpuset TestC"},
	}
	if diff := cmp.Diff(want, r, cmp.AllowUnexported(result{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestCached(t *testing.T) {
	for text, want := range map[string]bool{
		"ok  \tpinfold.dev/pinfold/core\t(cached)\n": true,
		"ok  \tpinfold.dev/pinfold/core\t0.1s\n":     false,
	} {
		var r result
		must.Do(t, r.read(strings.NewReader(`{"Action":"output","Package":"p","Output":"`+strings.NewReplacer("\t", `\t`, "\n", `\n`).Replace(text)+`"}
{"Action":"pass","Package":"p"}`)))
		if r.Cached != want {
			t.Errorf("%q: cached is %v, want %v", text, r.Cached, want)
		}
	}
}

func TestNowhere(t *testing.T) {
	results := []result{
		{Skips: map[string]string{"test/node TestPartition": "version 1", "agent TestX": "not root", "linux TestY": "short"}},
		{Ran: []string{"test/vm TestNode/systemd/node/TestPartition", "linux TestY"}},
	}
	if diff := cmp.Diff([]string{"agent TestX: not root"}, nowhere(results)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestClose(t *testing.T) {
	good, bad := result{Unit: "pure", Verdict: passed, counts: counts{Passed: 7, Skipped: 2}}, result{Unit: "smoke/node", First: "the agent is back", Disturbance: "1s"}
	for name, test := range map[string]struct {
		verdicts []verdict
		err      string
	}{
		"passed":         {nil, ""},
		"a flake":        {[]verdict{flake}, ""},
		"two flakes":     {[]verdict{flake, flake}, "2 flakes: mend them, or take them out of the gate"},
		"failed":         {[]verdict{failed}, "some tests failed"},
		"of the machine": {[]verdict{machine}, "some tests failed"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			results := []result{good}
			for _, v := range test.verdicts {
				bad.Verdict = v
				results = append(results, bad)
			}
			err := (&suite{out: &out}).close(results)
			if got := messageOf(err); got != test.err {
				t.Errorf("error %q, want %q", got, test.err)
			}
			if lines := strings.Split(out.String(), "\n"); lines[len(lines)-2] != "7 passed, 0 failed, 2 skipped" {
				t.Errorf("last line of %q", out.String())
			}
		})
	}
}

func messageOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestLock(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lock")
	unlock := must.Get(lock(t.Context(), file, io.Discard))(t)
	ctx, cancel := context.WithCancel(t.Context())
	var out cancelling
	out.cancel = cancel
	if _, err := lock(ctx, file, &out); !errors.Is(err, context.Canceled) || !strings.Contains(out.String(), "waiting for another run") {
		t.Errorf("a second lock: %v, %q", err, out.String())
	}
	unlock()
	must.Get(lock(t.Context(), file, io.Discard))(t)()
}

// cancelling ends what writes to it.
type cancelling struct {
	strings.Builder
	cancel func()
}

func (c *cancelling) Write(text []byte) (int, error) {
	c.cancel()
	return c.Builder.Write(text)
}

// TestOrder: what failed runs first, then what never ran, then the shortest.
func TestOrder(t *testing.T) {
	s := suite{runner: runner{dir: t.TempDir()}}
	for _, r := range []result{{Unit: "long", Verdict: passed, Seconds: 100}, {Unit: "short", Verdict: passed, Seconds: 1}, {Unit: "bad", Verdict: failed, Seconds: 500}} {
		must.Do(t, s.runner.keep(r))
	}
	var got []string
	for _, u := range s.order([]unit{{name: "long"}, {name: "short"}, {name: "new"}, {name: "bad"}}) {
		got = append(got, u.name)
	}
	if diff := cmp.Diff([]string{"bad", "new", "short", "long"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestRates(t *testing.T) {
	file := filepath.Join(t.TempDir(), "flakes.txt")
	must.Do(t, os.WriteFile(file, []byte("pure passed 100 s: \nsmoke/node failed 20 s: late\nsmoke/node passed 20 s: \n"), 0o600))
	ran, good, err := rates(file)
	must.Do(t, err)
	if diff := cmp.Diff([]map[string]int{{"pure": 1, "smoke/node": 2}, {"pure": 1, "smoke/node": 1}}, []map[string]int{ran, good}); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestRecord(t *testing.T) {
	file := filepath.Join(t.TempDir(), "record.md")
	must.Do(t, record(file, []result{
		{Unit: "pure", Verdict: passed, Commit: "725ffdb0abcd", Seconds: 300, counts: counts{Passed: 2000}, Skips: map[string]string{"agent TestX": "a_test.go:1: <root>"}},
		{Unit: "test/node/TestBurst", Verdict: flake, Commit: "725ffdb0abcd", Seconds: 60, counts: counts{Passed: 8}, First: "test/node TestBurst: late", Disturbance: "1m0s by the clock"},
		{Unit: "race", Verdict: passed, Commit: "725ffdb0abcd", Seconds: 20, counts: counts{Passed: 30, Skipped: 1}},
		{Unit: "tracefile", Verdict: passed, Commit: "725ffdb0abcd", Seconds: 39.6, counts: counts{Passed: 4}},
		{Unit: "agent", Verdict: passed, Cached: true, Commit: "725ffdb0abcd", counts: counts{Passed: 10}},
	}, 6*time.Minute))
	text := string(must.Get(os.ReadFile(file))(t))
	_, table, _ := strings.Cut(text, "| machine |") // its first line and the date differ
	_, table, _ = strings.Cut(table, "\n")
	golden.Compare(t, "testdata/record.txt", table)
}
