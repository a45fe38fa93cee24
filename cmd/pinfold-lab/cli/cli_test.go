package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pinfold.dev/pinfold/cmd/internal/usage"
)

func run(t *testing.T, args ...string) (stdout string, err error) {
	t.Helper()
	var out, messages strings.Builder
	err = Run(t.Context(), args, &out, &messages)
	return out.String(), err
}

// TestWrongUsage checks that wrong flags are rejected before anything is started.
func TestWrongUsage(t *testing.T) {
	for args, want := range map[string]string{
		"run colocation now":                     `"now"`,
		"run colocation --rounds 0":              "there must be a round",
		"run colocation --online 0.9":            "at most 80%",
		"run colocation --window 1ms":            "100ms or more",
		"run colocation --threads 0":             "needs a thread",
		"run colocation --foreign 0":             "foreign CPU time",
		"run colocation --hash none":             "invalid argument",
		"run binding":                            "binding",
		"report":                                 "give one FILE",
		"workload batch --threads 0":             "1 or more",
		"run colocation --settle -1s --rounds 0": "there must be a round",
	} {
		_, err := run(t, strings.Fields(args)...)
		if err == nil || !strings.Contains(err.Error(), want) || usage.ExitStatus(err) != 2 {
			t.Errorf("%s: error %v (status %d), want %q (status 2)", args, err, usage.ExitStatus(err), want)
		}
	}
}

// TestReport checks that the table in the documentation is that of its raw data, and reads files that
// are no results.
func TestReport(t *testing.T) {
	const docs = "../../../docs/"
	table, err := run(t, "report", docs+"colocation.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(docs + "colocation.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "```\n"+table+"```\n") {
		t.Errorf("colocation.md does not contain the table of colocation.jsonl:\n%s", table)
	}
	wrong := filepath.Join(t.TempDir(), "wrong")
	if err := os.WriteFile(wrong, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{wrong: "which pinfold-lab run has not written", wrong + "er": "no such file"} {
		if _, err := run(t, "report", file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", file, err, want)
		}
	}
}
