package documents

import (
	"fmt"
	"regexp"
	"testing"
)

// TestNames checks that documents name what the code has: the direct dependencies of the modules, and
// the reasons of the agent's notices, with their meaning and who can cause them.
func TestNames(t *testing.T) {
	const reason, row = `(?m)^\t\w.* = "(\w+)"`, "(?m)^\\|[^|]*`%s`"
	modules := read(t, "go.mod") + read(t, "lab/go.mod") + read(t, "bench/go.mod")
	notices := read(t, "agent/control/groups/notice.go") + read(t, "core/nodeplan/finding.go")
	for document, of := range map[string]struct{ code, name, as string }{
		"docs/licences.md": {modules, `(?m)^\t(\S+) v\S+$`, "`%s`"},
		"docs/agent.md":    {notices, reason, row},
		"docs/security.md": {notices, reason, row},
	} {
		names := regexp.MustCompile(of.name).FindAllStringSubmatch(of.code, -1)
		for _, name := range names {
			as := regexp.MustCompile(fmt.Sprintf(of.as, regexp.QuoteMeta(name[1])))
			if name[1] != "pinfold.dev/pinfold" && !as.MatchString(read(t, document)) {
				t.Errorf("%s does not have %s", document, name[1])
			}
		}
		if len(names) == 0 {
			t.Errorf("%s: the code has no names", document)
		}
	}
}
