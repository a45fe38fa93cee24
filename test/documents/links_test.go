package documents

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"pinfold.dev/pinfold/test/must"
)

var (
	link     = regexp.MustCompile(`\]\(([^)\s:]*)\)`) // without those of other hosts
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
			} else if section != "" && !hasSection(read(t, target), section) {
				t.Errorf("%s links to %s, which is no heading of %s", document, match[1], target)
			}
		}
	}
}

// hasSection reports whether a text has a heading of which GitHub makes the id.
func hasSection(text, id string) bool {
	for _, match := range heading.FindAllStringSubmatch(fences.ReplaceAllString(text, ""), -1) {
		title := notInIDs.ReplaceAllString(strings.ToLower(match[1]), "")
		if strings.ReplaceAll(title, " ", "-") == id {
			return true
		}
	}
	return false
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
