package documents

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
)

// TestNames checks that documents name what the code has: the reasons of the agent's notices, with
// their meaning and who can cause them, and no others.
func TestNames(t *testing.T) {
	const reason, row = `(?m)^\t\w.* = "(\w+)"`, "(?m)^\\|[^|]*`%s`"
	notices := read(t, "agent/control/groups/notice.go") + read(t, "core/nodeplan/finding.go")
	for document, of := range map[string]struct{ code, name, as string }{
		"docs/agent.md":    {notices, reason, row},
		"docs/security.md": {notices, reason, row},
	} {
		names := regexp.MustCompile(of.name).FindAllStringSubmatch(of.code, -1)
		for _, name := range names {
			as := regexp.MustCompile(fmt.Sprintf(of.as, regexp.QuoteMeta(name[1])))
			if !as.MatchString(read(t, document)) {
				t.Errorf("%s does not have %s", document, name[1])
			}
		}
		if len(names) == 0 {
			t.Errorf("%s: the code has no names", document)
		}
	}
	// And no others: each reason of the first column is one that an agent can have.
	_, section, _ := strings.Cut(read(t, "docs/agent.md"), "\n## Where it says what is wrong\n")
	section, _, _ = strings.Cut(section, "\n## ")
	conditions := read(t, "kube/nodetopology/encode.go") + read(t, "agent/runtime.go")
	for _, row := range regexp.MustCompile("(?m)^\\| ((?:`\\w+`(?:, )?)+) \\|").FindAllStringSubmatch(section, -1) {
		for _, name := range regexp.MustCompile(`\w+`).FindAllString(row[1], -1) {
			if !strings.Contains(notices+conditions, `"`+name+`"`) {
				t.Errorf("docs/agent.md: no agent has the reason %s", name)
			}
		}
	}
}

// TestLicences checks that docs/licences.md has all direct dependencies of the modules, those that are linked into
// programs in another column than the others, and nothing else.
func TestLicences(t *testing.T) {
	need.This(t, "the go command")
	linked, want, got := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for dir, programs := range map[string][]string{"": {"./cmd/pinfold", "./cmd/pinfold-agent", "./cmd/pinfold-local", "./cmd/pinfold-scheduler"}, "lab": {"./pinfold-lab"}} {
		command := exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}"}, programs...)...)
		command.Dir = filepath.Join(root, dir)
		for module := range strings.FieldsSeq(string(must.Get(command.Output())(t))) {
			linked[module] = true
		}
	}
	for _, file := range []string{"go.mod", "lab/go.mod", "bench/go.mod"} {
		for _, direct := range regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(read(t, file), -1) {
			if direct[1] != "pinfold.dev/pinfold" {
				want[direct[1]] = linked[direct[1]]
			}
		}
	}
	for line := range strings.Lines(read(t, "docs/licences.md")) {
		if columns := strings.Split(line, "|"); len(columns) == 5 {
			for i, column := range columns[2:4] {
				for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(column, -1) {
					got[name[1]] = i == 0
				}
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("which dependencies are linked into programs (-want +got):\n%s", diff)
	}
}
