package rings

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strings"
)

// MaxLines is the maximum length of a file.
const MaxLines = 400

// CheckLength returns a problem for each file that is too long.
func CheckLength(m *Module) []string {
	var problems []string
	for _, f := range m.Files {
		if f.Lines > MaxLines && !ast.IsGenerated(f.Syntax) {
			problems = append(problems, fmt.Sprintf("%s: %d lines, want at most %d: split it by subject", f.Path, f.Lines, MaxLines))
		}
	}
	return problems
}

// CheckComments returns a problem for each package without a package comment. In a package that
// consists of tests, the comment may be in a test.
func CheckComments(m *Module) []string {
	packages := map[string][]File{}
	for _, f := range m.Files {
		packages[f.Dir()] = append(packages[f.Dir()], f)
	}
	var problems []string
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		files := packages[dir]
		code := slices.DeleteFunc(slices.Clone(files), func(f File) bool { return strings.HasSuffix(f.Path, "_test.go") })
		if len(code) > 0 {
			files = code
		}
		if !slices.ContainsFunc(files, func(f File) bool { return f.Syntax.Doc.Text() != "" }) {
			problems = append(problems, dir+": the package has no package comment: describe it above a package clause")
		}
	}
	return problems
}
