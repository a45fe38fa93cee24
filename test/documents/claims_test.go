package documents

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// claim says who executes the code blocks of a document.
type claim struct {
	blocks string // regular expression: how the info string and, after a newline, the text begin
	by     string // "DIRECTORY TEST", or why they are not executed: "not: REASON"
}

// claims of documents. The first one that matches a block counts, and each must match one.
var claims = map[string][]claim{
	"README.md": {
		{`sh\nmake test`, "not: it runs this test, too"},
		{`sh (install|top|observe)\n`, "test/node TestRelease"},
		{`sh\n`, "test/documents TestReadme"},
		{`yaml\n`, "test/documents TestLocal"},
	},
	"bench/README.md": {
		{`sh\nmake bench`, "not: it takes half an hour"},
		{`sh\npython3`, "not: it installs from PyPI, and takes minutes"},
		{`sh\nmake build bin/benchstat`, "not: it takes a quarter of an hour"},
	},
	"deploy/chart/README.md":    {{`(sh|yaml file)`, "test/documents TestChart"}},
	"deploy/examples/README.md": {{`sh\n`, "test/documents TestLocal"}},
	"docs/agent.md": {
		{`toml\n`, "not: a part of containerd's configuration"},
		{`yaml\n`, "test/documents TestManifests"},
		{`yaml file=ceilings.yaml\n`, "test/documents TestManifests"},
	},
	"docs/charts/README.md": {{`sh\n`, "not: it replaces the charts, which report/sweep draws again in its tests"}},
	"docs/choose.md":        {{`(sh|yaml file=)`, "test/node TestChoose"}},
	"docs/design.md": {
		{`\n +pod with annotations`, "not: a drawing"},
	},
	"docs/dra.md": {{`yaml\n`, "test/documents TestManifests"}},
	"docs/lab.md": {
		{`(sh|sh own|console)\n`, "test/documents TestLab"},
		{`sh packages\n`, "not: it installs packages"},
	},
	"docs/local.md": {
		{`sh (up|get|two)\n`, "test/documents TestLocal"},
		{`sh node\n`, "test/node TestUpAndDown"},
		{`yaml file=site.yaml\n`, "test/node TestChoose"},
	},
	"docs/monitoring.md": {{`yaml file=`, "test/documents TestChart"}},
	"docs/operations.md": {{`(sh \w|yaml file=)`, "test/node TestOperations"}},
	"docs/pinfold.md": {
		{`console root\n`, "test/documents TestReadme"},
		{`(console|\w+ file=)`, "cmd/pinfold TestManual"},
		{`indented\n3 groups`, "not: a picture"},
		{`indented\n(pandas|duckdb)`, "not: Python; tracefile reads all its files with pandas and DuckDB"},
		{`indented\nkubectl pinfold`, "test/node TestKubectl"},
		{`\nkubectl --namespace`, "test/node TestKubectl"},
		{`indented\npinfold advise --prometheus`, "test/verdict TestServer"},
		{`indented\npinfold sample --pod`, "not: about a container of the reader"},
	},
	"docs/advice.md": {{`indented\npinfold advise --prometheus`, "test/verdict TestServer"}},
	"docs/scheduler.md": {
		{`yaml\n`, "test/documents TestManifests"},
		{`yaml file=config.yaml\n`, "test/documents TestLocal"},
	},
	"docs/status.md": {
		{`console\n`, "test/cluster TestStatusManual"},
		{`console plugin\n`, "test/cluster TestPlugin"},
	},
	"docs/why.md": {
		{`sh`, "test/documents TestWhy"},
		{`\n/pinfold-run-`, "not: shortened results; TestWhy looks for their main lines"},
	},
}

// root is the repository.
const root = "../.."

// TestClaims checks that each code block of each document has a claim, and that the claims are true
// as far as names go.
func TestClaims(t *testing.T) {
	unused := map[string][]claim{}
	for document, all := range claims {
		unused[document] = slices.Clone(all)
	}
	for _, document := range documents(t) {
		for _, block := range golden.ReadCode(t, filepath.Join(root, document)) {
			text := block.Info + "\n" + block.Text
			i := slices.IndexFunc(claims[document], func(c claim) bool { return regexp.MustCompile("^" + c.blocks).MatchString(text) })
			if i < 0 {
				t.Errorf("%s: no test executes this block: add one, and name it in claims\n```%s```", document, text)
				continue
			}
			c := claims[document][i]
			unused[document] = slices.DeleteFunc(unused[document], func(o claim) bool { return o == c })
			checkTest(t, document, c.by)
		}
	}
	for document, all := range unused {
		for _, c := range all {
			t.Errorf("%s has no block that begins with %s", document, c.blocks)
		}
	}
}

// checkTest checks that a test exists, and that the tests beside it read the document.
func checkTest(t *testing.T, document, by string) {
	t.Helper()
	if strings.HasPrefix(by, "not: ") {
		return
	}
	dir, name, _ := strings.Cut(by, " ")
	files := must.Get(filepath.Glob(filepath.Join(root, dir, "*_test.go")))(t)
	if !slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		return err == nil && bytes.Contains(text, []byte("\nfunc "+name+"(t *testing.T)"))
	}) {
		t.Errorf("%s: %s has no test %s", document, dir, name)
	}
	if !slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		return err == nil && (dir == "test/documents" || bytes.Contains(text, []byte(`/`+filepath.Base(document)+`"`)))
	}) {
		t.Errorf("no test in %s reads %s", dir, document)
	}
}

// documents returns the Markdown files of the repository that have code.
func documents(t *testing.T) (all []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name := entry.Name(); name == "testdata" || path == "bin" || path == "docs/results" || len(name) > 1 && name[0] == '.' {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) == ".md" && path != "CHANGELOG.md" {
			all = append(all, path)
		}
		return nil
	})
	if err != nil || len(all) < len(claims) {
		t.Fatalf("%d documents: %v", len(all), err)
	}
	return all
}
