package documents

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pinfold.dev/pinfold/test/must"
)

var (
	link     = regexp.MustCompile(`\]\(([^)\s:]*)\)`) // without those of other hosts
	figures  = regexp.MustCompile(`\[([^\]` + "`" + `]*[0-9][^\]` + "`" + `]*)\]\(([^)\s:]*(?:figures|comparison|colocation|safety|results|report)\.md[^)\s:]*)\)`)
	number   = regexp.MustCompile(`[0-9][0-9.,]*`)
	heading  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	fences   = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	notInIDs = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	file     = regexp.MustCompile("`((?:agent|core|kube|lab|linux)/[a-z0-9_/]+(?:\\.go)?)`")
)

// TestLinks checks that what documents link to exists: files, and sections by their headings.
func TestLinks(t *testing.T) {
	for _, document := range documents(t) {
		for _, match := range link.FindAllStringSubmatch(read(t, document), -1) {
			path, section, _ := strings.Cut(match[1], "#")
			target := document
			if path != "" {
				target = filepath.Join(filepath.Dir(document), path)
			}
			if _, err := fs.Stat(os.DirFS(root), target); err != nil {
				t.Errorf("%s links to %s: %v", document, match[1], err)
			} else if section != "" {
				if _, ok := sectionOf(read(t, target), section); !ok {
					t.Errorf("%s links to %s, which is no heading of %s", document, match[1], target)
				}
			}
		}
	}
}

// TestLinkedFigures checks that figures in the text of a link are in the section that it leads to.
func TestLinkedFigures(t *testing.T) {
	links := 0
	for _, document := range append(documents(t), "deploy/chart/values.yaml") {
		for _, match := range figures.FindAllStringSubmatch(read(t, document), -1) {
			path, id, _ := strings.Cut(match[2], "#")
			target := document
			if path != "" {
				target = filepath.Join(filepath.Dir(document), path)
			}
			section := read(t, target)
			if id != "" {
				section, _ = sectionOf(section, id)
			}
			there := number.FindAllString(section, -1)
			for _, figure := range number.FindAllString(match[1], -1) {
				if !slices.ContainsFunc(there, func(n string) bool { return strings.TrimRight(n, ".,") == strings.TrimRight(figure, ".,") }) {
					t.Errorf("%s: %q is about %s, which does not have %s", document, oneLine(match[1]), match[2], figure)
				}
			}
			links++
		}
	}
	if links < 3 {
		t.Errorf("%d links with figures", links)
	}
}

// sectionOf returns the text below the heading of which GitHub makes the id, up to the next heading.
func sectionOf(text, id string) (string, bool) {
	text = fences.ReplaceAllString(text, "")
	for _, at := range heading.FindAllStringSubmatchIndex(text, -1) {
		title := notInIDs.ReplaceAllString(strings.ToLower(text[at[2]:at[3]]), "")
		if strings.ReplaceAll(title, " ", "-") == id {
			section, _, _ := strings.Cut(text[at[1]:], "\n#")
			return section, true
		}
	}
	return "", false
}

// TestFilesInDesign checks that the files and packages exist that an engineer is told to read.
func TestFilesInDesign(t *testing.T) {
	for _, document := range []string{"docs/design.md", "CONTRIBUTING.md"} {
		for _, match := range file.FindAllStringSubmatch(read(t, document), -1) {
			if _, err := fs.Stat(os.DirFS(root), match[1]); err != nil {
				t.Errorf("%s: %v", document, err)
			}
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	return string(must.Get(os.ReadFile(filepath.Join(root, path)))(t))
}
