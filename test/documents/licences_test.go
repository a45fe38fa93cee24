package documents

import (
	"regexp"
	"strings"
	"testing"
)

// TestLicences checks that docs/licences.md names the direct dependencies of each module.
func TestLicences(t *testing.T) {
	document := read(t, "docs/licences.md")
	direct := regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(read(t, "go.mod")+read(t, "lab/go.mod")+read(t, "bench/go.mod"), -1)
	if len(direct) == 0 {
		t.Fatal("go.mod has no direct dependency")
	}
	for _, module := range direct {
		if module[1] != "pinfold.dev/pinfold" && !strings.Contains(document, "`"+module[1]+"`") {
			t.Errorf("docs/licences.md does not have %s", module[1])
		}
	}
}
