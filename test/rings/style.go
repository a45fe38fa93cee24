package rings

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strings"
)

// MaxLines is the length that no file exceeds.
const MaxLines = 400

// CheckLength returns a line for every file that is too long.
func CheckLength(m *Module) []string {
	var problems []string
	for _, f := range m.Files {
		if f.Lines > MaxLines && !ast.IsGenerated(f.Syntax) {
			problems = append(problems, fmt.Sprintf("%s: %d lines, want at most %d: divide it by subject", f.Path, f.Lines, MaxLines))
		}
	}
	return problems
}

// CheckComments returns a line for every package without a package comment. A
// package of tests only may have it in one of them.
func CheckComments(m *Module) []string {
	commented, tests := map[string]bool{}, map[string]bool{}
	for _, f := range m.Files {
		isTest := strings.HasSuffix(f.Path, "_test.go")
		if _, seen := tests[f.Dir()]; !seen {
			tests[f.Dir()] = true
		}
		tests[f.Dir()] = tests[f.Dir()] && isTest
	}
	for _, f := range m.Files {
		isTest := strings.HasSuffix(f.Path, "_test.go")
		if f.Syntax.Doc.Text() != "" && isTest == tests[f.Dir()] {
			commented[f.Dir()] = true
		}
	}
	var problems []string
	for _, dir := range slices.Sorted(maps.Keys(tests)) {
		if !commented[dir] {
			problems = append(problems, dir+": the package has no package comment: say what it is, above a package clause")
		}
	}
	return problems
}
