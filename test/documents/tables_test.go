package documents

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"pinfold.dev/pinfold/test/must"
)

// delimiter is the second line of a table.
var delimiter = regexp.MustCompile(`^\|( *:?-+:? *\|)+$`)

// TestTables checks that each table is one where it is read (GitHub Flavored Markdown, 4.10): it is a
// paragraph of its own, with a delimiter row, and all rows have as many cells as that.
func TestTables(t *testing.T) {
	results := must.Get(filepath.Glob(filepath.Join(root, "docs/results/*.md")))(t)
	tables := 0
	for _, document := range append(documents(t), "CHANGELOG.md") {
		tables += checkTables(t, document)
	}
	for _, path := range results {
		tables += checkTables(t, must.Get(filepath.Rel(root, path))(t))
	}
	if tables < 100 {
		t.Errorf("found %d tables", tables)
	}
}

func checkTables(t *testing.T, document string) (tables int) {
	t.Helper()
	for paragraph := range strings.SplitSeq(fences.ReplaceAllString(read(t, document), ""), "\n\n") {
		if !strings.Contains("\n"+paragraph, "\n|") {
			continue
		}
		tables++
		lines := strings.Split(strings.Trim(paragraph, "\n"), "\n")
		if len(lines) < 3 || !delimiter.MatchString(lines[1]) {
			t.Errorf("%s: not a table, which has a head, a delimiter row and no empty line:\n%s", document, paragraph)
			continue
		}
		for _, line := range lines {
			if !strings.HasPrefix(line, "|") || !strings.HasSuffix(line, "|") || cells(line) != cells(lines[1]) {
				t.Errorf("%s: this row does not have %d cells:\n%s", document, cells(lines[1]), line)
			}
		}
	}
	return tables
}

// cells returns the number of cells of a row. A | that is escaped separates none, and one in code does.
func cells(row string) int { return strings.Count(strings.ReplaceAll(row, `\|`, ""), "|") - 1 }
