package dashboard

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFile: deploy/chart/files/dashboard.json equals the dashboard of this package.
func TestFile(t *testing.T) {
	const file = "../../../deploy/chart/files/dashboard.json"
	want, err := New().Text()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("PINFOLD_UPDATE") == "1" {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; PINFOLD_UPDATE=1 creates the file", err)
	}
	if d := cmp.Diff(string(have), string(want)); d != "" {
		t.Errorf("the file differs from the dashboard of this package; PINFOLD_UPDATE=1 rewrites it:\n%s", d)
	}
}
