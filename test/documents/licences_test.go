package documents

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestLicences checks that docs/licences.md names each direct dependency.
func TestLicences(t *testing.T) {
	modules, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	document, err := os.ReadFile(filepath.Join(root, "docs/licences.md"))
	if err != nil {
		t.Fatal(err)
	}
	direct := regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllSubmatch(modules, -1)
	if len(direct) == 0 {
		t.Fatal("go.mod has no direct dependency")
	}
	for _, module := range direct {
		if name := string(module[1]); !strings.Contains(string(document), "`"+name+"`") {
			t.Errorf("docs/licences.md does not have %s", name)
		}
	}
}
