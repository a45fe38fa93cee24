package rings

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
)

// impure returns the packages of the standard library that core must not import, including the
// packages below them.
func impure() []string {
	return []string{
		"C", "crypto/rand", "database/sql", "expvar", "flag", "io/ioutil", "log", "net", "os", "path/filepath",
		"plugin", "runtime/cgo", "runtime/debug", "runtime/pprof", "runtime/trace", "syscall", "testing", "unsafe",
	}
}

// impureNames are names that core must not use, in a package that it may import.
type impureNames struct {
	names []string
	only  bool // the names are permitted instead, and all others are not
	why   string
}

func impureFunctions() map[string]impureNames {
	return map[string]impureNames{
		"time": {names: []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer"},
			why: "core has no clock: pass in times"},
		"fmt": {names: []string{"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
			why: "core has no standard input and output"},
		"math/rand": {only: true, names: []string{"New", "NewSource", "NewZipf", "Rand", "Source", "Source64", "Zipf"},
			why: "core has no random source of its own: pass one in"},
		"math/rand/v2": {only: true, names: []string{"New", "NewPCG", "NewChaCha8", "NewZipf", "Rand", "Source", "PCG", "ChaCha8", "Zipf"},
			why: "core has no random source of its own: pass one in"},
	}
}

// CheckCore returns a problem for each use of I/O, clocks or own random sources in core, and for
// each import of another module that core must not use.
func CheckCore(m *Module) []string {
	var problems []string
	for _, f := range m.Files {
		if f.Dir() != "core" && !strings.HasPrefix(f.Dir(), "core/") {
			continue
		}
		for _, imported := range f.Imports {
			if why := forbidden(m, f, imported); why != "" {
				problems = append(problems, fmt.Sprintf("%s: imports %s: %s", f.Path, imported, why))
			}
		}
		if !f.IsTest() {
			problems = append(problems, functionsIn(f)...)
		}
	}
	return problems
}

// forbidden returns why a file of core must not import a package, or "" if it may.
func forbidden(m *Module, f File, imported string) string {
	switch {
	case within(imported, m.Path): // CheckImports checks these
		return ""
	case strings.Contains(strings.Split(imported, "/")[0], "."): // of another module
		libraries := []string{"gonum.org/v1/gonum", "github.com/HdrHistogram/hdrhistogram-go"}
		if f.IsTest() {
			libraries = append(libraries, "pgregory.net/rapid", "github.com/google/go-cmp",
				"github.com/rogpeppe/go-internal", "golang.org/x/tools/txtar")
		}
		if !slices.ContainsFunc(libraries, func(l string) bool { return within(imported, l) }) {
			return "core uses the standard library and " + strings.Join(libraries, ", ") + " only"
		}
	case !f.IsTest() && slices.ContainsFunc(impure(), func(p string) bool { return within(imported, p) }):
		return "core has no input and output"
	}
	return ""
}

// within reports whether a package is the parent, or below it.
func within(imported, parent string) bool {
	return imported == parent || strings.HasPrefix(imported, parent+"/")
}

// functionsIn finds uses of impureFunctions. It takes a variable with the name of an imported
// package for the package.
func functionsIn(f File) []string {
	var problems []string
	byName := map[string]string{} // paths of packages by their names in the file
	for i, spec := range f.Syntax.Imports {
		imported := f.Imports[i]
		name := path.Base(strings.TrimSuffix(imported, "/v2"))
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if name == "." {
			problems = append(problems, fmt.Sprintf("%s: imports %s with a dot, which hides which of its names are used", f.Path, imported))
		}
		byName[name] = imported
	}
	functions := impureFunctions()
	ast.Inspect(f.Syntax, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		name, ok := selector.X.(*ast.Ident)
		if !ok {
			return true
		}
		if impure, ok := functions[byName[name.Name]]; ok && slices.Contains(impure.names, selector.Sel.Name) != impure.only {
			problems = append(problems, fmt.Sprintf("%s: uses %s.%s: %s", f.Path, name.Name, selector.Sel.Name, impure.why))
		}
		return true
	})
	return problems
}
