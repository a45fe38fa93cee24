package dashboard

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFile: the file that is imported is what this package makes.
func TestFile(t *testing.T) {
	const file = "../../../deploy/grafana/pinfold.json"
	made, err := New().Text()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("PINFOLD_UPDATE") == "1" {
		if err := os.WriteFile(file, made, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; PINFOLD_UPDATE=1 makes the file", err)
	}
	if d := cmp.Diff(string(have), string(made)); d != "" {
		t.Errorf("the file is not what this package makes; PINFOLD_UPDATE=1 writes it anew:\n%s", d)
	}
}
