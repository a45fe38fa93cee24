package findings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pinfold.dev/pinfold/report/chart/charttest"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/race"
)

// pageOf returns the page of some runs.
func pageOf(t testing.TB, runs []Run) string {
	t.Helper()
	var b strings.Builder
	must.Do(t, Page(&b, runs, "pinfold-lab 1.0"))
	return b.String()
}

// TestPage: a page has every part of which there are data, and no other.
func TestPage(t *testing.T) {
	all := runs(t)
	headings := []string{"Results", "Main figures", "Latency", "CPU usage over time", "Where the time of threads went",
		"All figures", "Load generator and disturbances", "Notes", "Environment"}
	missing := map[string][]string{
		"cycles":     {"Latency", "CPU usage over time", "Where the time of threads went", "Notes"},
		"incomplete": {"CPU usage over time", "Where the time of threads went"},
		"zero":       {"Notes"},
	}
	for _, r := range all {
		name := r.Result.Config.Name
		page := pageOf(t, []Run{r})
		charttest.Alone(t, page)
		for _, heading := range headings {
			want := !strings.Contains(strings.Join(missing[name], ";"), heading)
			if strings.Contains(page, "<h3>"+heading+"</h3>") != want {
				t.Errorf("%s: the heading %q is there: %v, want %v", name, heading, !want, want)
			}
		}
		if strings.Contains(page, `class="incomplete"`) == r.Result.Complete {
			t.Errorf("%s: complete: %v, but the page says something else", name, r.Result.Complete)
		}
	}
	page := pageOf(t, all)
	charttest.Alone(t, page)
	for _, want := range []string{`<a href="#experiment-4">zero</a>`, `<section id="experiment-4">`, "<code>pinfold-lab run cycles --quick</code>", "Made by pinfold-lab 1.0"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page of several runs has no %s", want)
		}
	}
}

// TestPagesFit shows pages of one and of several runs in a browser.
func TestPagesFit(t *testing.T) {
	dir := t.TempDir()
	all := runs(t)
	for name, some := range map[string][]Run{"one.html": all[:1], "all.html": all} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(pageOf(t, some)), 0o600))
	}
	charttest.Fit(t, dir, "one.html", "all.html")
}

// ten returns ten runs of many rounds.
func ten(t testing.TB) []Run {
	m := newMaker(t)
	all := make([]Run, 10)
	for i := range all {
		all[i] = m.burst(12)
	}
	return all
}

// TestWeight: a page of ten runs is small.
func TestWeight(t *testing.T) {
	race.SkipLong(t)
	if size := len(pageOf(t, ten(t))); size > 3_000_000 {
		t.Errorf("the page has %d bytes", size)
	}
}
