package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/cmd/frame/frametest"
	"pinfold.dev/pinfold/lab/measure"
	"pinfold.dev/pinfold/test/must"
)

func run(t *testing.T, args ...string) (stdout string, err error) {
	t.Helper()
	var out, messages strings.Builder
	err = frame.Run(t.Context(), newRoot(), args, nil, &out, &messages)
	return out.String(), err
}

func TestDocuments(t *testing.T) { frametest.Documents(t, newRoot) }

func TestWrongFlags(t *testing.T) { frametest.WrongFlags(t, newRoot) }

func TestHelp(t *testing.T) { frametest.Help(t, newRoot) }

func TestFlags(t *testing.T) { frametest.Flags(t, newRoot) }

// TestWrongUsage checks that wrong command lines are rejected before anything is started.
func TestWrongUsage(t *testing.T) {
	for args, want := range map[string]string{
		"run":                          "give the NAME",
		"run nothing":                  "there are binding, budget, burst",
		"run burst nothing":            `"nothing"`,
		"run burst --config x.yaml":    "not both",
		"run burst --repetitions -1":   "must not be negative",
		"run burst --quick=maybe":      "invalid argument",
		"list all":                     `"all"`,
		"advice all":                   `"all"`,
		"advice --runs 0":              "must be 1s or more, 1 or more",
		"advice --record 10ms":         "must be 1s or more",
		"advice --only [":              "--only",
		"report":                       "give a DIR",
		"workload batch --threads 0":   "1 or more",
		"workload web --threads 0":     "1 or more",
		"workload cycles --compute 0s": "1 or more",
		"workload requests":            "needs the URL of a server",

		"workload requests --batch 0 http://127.0.0.1":  "a batch of 0 requests",
		"workload requests --cpu -1ms http://127.0.0.1": "a CPU time of -1ms",
	} {
		_, err := run(t, strings.Fields(args)...)
		if err == nil || !strings.Contains(err.Error(), want) || frame.ExitStatus(err) != 2 {
			t.Errorf("%s: error %v (status %d), want %q (status 2)", args, err, frame.ExitStatus(err), want)
		}
	}
}

// TestWrongConfig checks that mistakes in a file are named.
func TestWrongConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "wrong.yaml")
	for text, want := range map[string]string{
		"version: 1\nrounnds: 3\n": `unknown field "rounnds"`,
		"version: 2\n":             "this program knows version 1",
		"version: [\n":             "wrong.yaml",
	} {
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
		if _, err := run(t, "run", "--config", file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
	if _, err := run(t, "run", "--config", file+"x"); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("error %v, want that there is no such file", err)
	}
}

// TestRequests sends requests to a server that answers, and to one that does not.
func TestRequests(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if q := r.URL.Query(); q.Get("cpu") != "3.2ms" || q.Get("of") != "mine" {
			http.Error(w, "no CPU time was asked for", http.StatusBadRequest)
		}
	}))
	defer server.Close()
	args := []string{"workload", "requests", "--batch", "3", "--every", "20ms", "--duration", "100ms", server.URL + "/?of=mine"}
	text, err := run(t, append(args, "--cpu", "3.2ms")...)
	if lines := strings.Count(text, "\n"); err != nil || lines != 16 || !strings.HasPrefix(text, "start,end\n20") {
		t.Errorf("%v, %d lines:\n%s", err, lines, text)
	}
	log := filepath.Join(t.TempDir(), "log.csv")
	args = append(args, "--output", log)
	for _, more := range []string{"--cpu=3.2ms", "--force"} {
		if text, err := run(t, append(args, "--cpu=3.2ms", more)...); err != nil || text != "" {
			t.Errorf("%s: %v\n%s", more, err, text)
		}
	}
	if text, err := os.ReadFile(log); err != nil || strings.Count(string(text), "\n") != 16 {
		t.Errorf("%v\n%s", err, text)
	}
	if _, err := run(t, append(args, "--cpu=3.2ms")...); err == nil || !strings.Contains(err.Error(), log+": file already exists: choose another name, or replace it with --force") {
		t.Error(err)
	}
	args = args[:len(args)-2]
	if text, err := run(t, args...); err == nil || !strings.Contains(err.Error(), "answered no request") || text != "start,end\n" {
		t.Errorf("a server that refuses: %v\n%s", err, text)
	}
}

// TestList checks that every experiment is listed with its question.
func TestList(t *testing.T) {
	text := must.Get(run(t, "list"))(t)
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) != len(measure.Names()) {
		t.Fatalf("%d lines, want %d", len(lines), len(measure.Names()))
	}
	for i, name := range measure.Names() {
		if fields := strings.Fields(lines[i]); fields[0] != name || !strings.HasSuffix(lines[i], "?") {
			t.Errorf("line %d: %q", i, lines[i])
		}
	}
}

// TestReport makes a report of the documented results, and reads directories that have none.
func TestReport(t *testing.T) {
	const results = "../../docs/results"
	dir := t.TempDir()
	must.Get(run(t, "report", results, "-o", dir))(t)
	have := must.Get(os.ReadFile(filepath.Join(dir, markdown)))(t)
	want, err := os.ReadFile(filepath.Join(results, markdown))
	if err != nil || string(have) != string(want) {
		t.Errorf("%s/%s is not the report of its data: run 'pinfold-lab report %s' (%v)", results, markdown, results, err)
	}
	if _, err := run(t, "report", dir); err == nil || !strings.Contains(err.Error(), "has no result.jsonl") {
		t.Errorf("error %v, want that there is no result", err)
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "result.jsonl"), []byte("text"), 0o600))
	if _, err := run(t, "report", dir); err == nil || !strings.Contains(err.Error(), "which pinfold-lab run has not written") {
		t.Errorf("error %v, want that it is no result", err)
	}
}

// TestRepeat: the command that repeats an experiment names its own file and size.
func TestRepeat(t *testing.T) {
	for args, want := range map[string]string{
		"":                                   "pinfold-lab run burst",
		"--quick -o there":                   "pinfold-lab run burst --quick",
		"--config /a/mine.yaml --quick":      "pinfold-lab run --config mine.yaml --quick",
		"--until concluded --budget 20m":     "pinfold-lab run burst --budget 20m0s --until concluded",
		"--config mine.yaml --repetitions 1": "pinfold-lab run --config mine.yaml --repetitions 1",
	} {
		flags := newRun().Flags()
		must.Do(t, flags.Parse(strings.Fields(args)))
		if got := repeat(flags, "burst"); got != want {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
}
