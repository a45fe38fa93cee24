package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pinfold.dev/pinfold/test/must"
)

// advises matches the part of a message that says what to do. verb is of package fmt.
var (
	advises = regexp.MustCompile(`: (choose|give|leave|make|name|put|raise|say|take|use) .*`)
	verb    = regexp.MustCompile(`%(\[\d\])?[a-z]`)
)

// TestRemedies: the scripts in testdata, most of all remedies.txtar, have each message about wrong usage
// that advises something, and do that. Package cluster needs a cluster.
func TestRemedies(t *testing.T) {
	script, found := "", 0
	for _, path := range must.Get(filepath.Glob("testdata/script/*.txtar"))(t) {
		script += strings.ReplaceAll(string(must.Get(os.ReadFile(path))(t)), "''", "'")
	}
	must.Do(t, filepath.WalkDir("internal", func(path string, _ fs.DirEntry, err error) error {
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "internal/cluster/") {
			return err
		}
		file := must.Get(parser.ParseFile(token.NewFileSet(), path, nil, 0))(t)
		ast.Inspect(file, func(n ast.Node) bool {
			message := usage(n)
			remedy := advises.FindString(message)
			if remedy == "" {
				return true
			}
			found++
			parts := verb.Split(strings.ReplaceAll(remedy, "%%", "%"), -1)
			longest := slices.MaxFunc(parts, func(a, b string) int { return len(a) - len(b) })
			if !strings.Contains(script, strings.TrimSpace(longest)) {
				t.Errorf("%s: no script does what this advises: %s", path, message)
			}
			return true
		})
		return nil
	}))
	if found == 0 {
		t.Error("no message advises anything")
	}
}

// usage returns the text of a call of frame.Usagef, or "".
func usage(n ast.Node) string {
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) == 0 {
		return ""
	}
	function, ok := call.Fun.(*ast.SelectorExpr)
	text, isLiteral := call.Args[0].(*ast.BasicLit)
	if !ok || !isLiteral || function.Sel.Name != "Usagef" {
		return ""
	}
	message, err := strconv.Unquote(text.Value)
	if err != nil {
		return ""
	}
	return message
}
