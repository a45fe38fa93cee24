package control

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"pinfold.dev/pinfold/test/must"
)

// advice matches a notice that says what to do, and its reason.
var advice = regexp.MustCompile(`(?m)^event on [^:]+: (\w+): .*(?:: |; |, |or |and )(?:set|give|remove|delete|use|make|run|stop|label|raise|create|lower|split|change|add|look|let|move|replace) `)

// TestRemedies: a scenario does what a notice advises, in a block "# Remedy for REASON" with an agent that
// starts and so tells everything, and the notice does not come again.
func TestRemedies(t *testing.T) {
	advised, done := map[string]string{}, map[string]bool{}
	for _, path := range must.Get(filepath.Glob("testdata/*.txt"))(t) {
		for block := range strings.SplitSeq(string(must.Get(os.ReadFile(path))(t)), "\n\n") {
			for _, found := range advice.FindAllStringSubmatch(block, -1) {
				advised[found[1]] = path + ": " + found[0]
			}
			remedy, ok := strings.CutPrefix(block, "# Remedy for ")
			if !ok {
				continue
			}
			first, rest, _ := strings.Cut(remedy, "\n")
			reasons, _, _ := strings.Cut(first, ":")
			commands, output, _ := strings.Cut(rest, "----")
			for reason := range strings.SplitSeq(reasons, ", ") {
				done[reason] = true
				if !strings.Contains(commands, "restart\n") || !strings.Contains(commands, "round\n") || strings.Contains(output, reason) {
					t.Errorf("%s: the remedy for %s does not help, or no agent starts after it:\n%s", path, reason, block)
				}
			}
		}
	}
	for reason, notice := range advised {
		if !done[reason] {
			t.Errorf("no scenario has a block \"# Remedy for %s\": %s", reason, notice)
		}
	}
}
