package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/test/must"
)

// TestDocsNumbers checks that the simulator still computes some rows of docs/charts/sweep.csv.
func TestDocsNumbers(t *testing.T) {
	text := must.Get(os.ReadFile("../../docs/charts/sweep.csv"))(t)
	for _, which := range [][]string{{"exponential", "0.9", "10", "1"}, {"exponential", "0.5", "20", "2"}, {"pareto", "0.8", "10", "inf"}} {
		dir := filepath.Join(t.TempDir(), "sweep")
		err := frame.Run(t.Context(), newRoot("pinfold"), []string{"simulate", "sweep", "-o", dir, "--distribution", which[0], "--mean", which[1],
			"--cgroups", which[2], "--burst", strings.NewReplacer("1", "100%", "2", "200%").Replace(which[3])}, strings.NewReader(""), io.Discard, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		made := must.Get(os.ReadFile(filepath.Join(dir, "sweep.csv")))(t)
		_, row, _ := strings.Cut(string(made), "\n")
		if !strings.HasPrefix(row, strings.Join(which, ",")+",") || !strings.Contains(string(text), "\n"+row) {
			t.Errorf("docs/charts/sweep.csv does not have the row\n%sMake docs/charts anew, as its README says", row)
		}
	}
}
