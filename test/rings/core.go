package rings

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
)

// impure are the packages of the standard library that core must not import,
// with all that is below them.
func impure() []string {
	return []string{
		"C", "crypto/rand", "database/sql", "expvar", "flag", "io/ioutil", "log", "net", "os", "path/filepath",
		"plugin", "runtime/cgo", "runtime/debug", "runtime/pprof", "runtime/trace", "syscall", "testing", "unsafe",
	}
}

// impureNames are functions that core must not use, of packages that it may
// import. With "only", all others of the package are meant.
type impureNames struct {
	names []string
	only  bool
	why   string
}

func impureFunctions() map[string]impureNames {
	return map[string]impureNames{
		"time": {names: []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer"},
			why: "core has no clock, times are passed in"},
		"fmt": {names: []string{"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
			why: "core has no standard input and output"},
		"math/rand": {only: true, names: []string{"New", "NewSource", "NewZipf", "Rand", "Source", "Source64", "Zipf"},
			why: "core has no random numbers of its own, the source is passed in"},
		"math/rand/v2": {only: true, names: []string{"New", "NewPCG", "NewChaCha8", "NewZipf", "Rand", "Source", "PCG", "ChaCha8", "Zipf"},
			why: "core has no random numbers of its own, the source is passed in"},
	}
}

// CheckCore returns a line for everything in core that reaches outside: imports
// of other modules, and what the standard library offers for it.
func CheckCore(m *Module) []string {
	var problems []string
	for _, f := range m.Files {
		if f.Dir() != "core" && !strings.HasPrefix(f.Dir(), "core/") {
			continue
		}
		for _, imported := range f.Imports {
			if why := refusal(m, f, imported); why != "" {
				problems = append(problems, fmt.Sprintf("%s: imports %s: %s", f.Path, imported, why))
			}
		}
		if !f.IsTest() {
			problems = append(problems, functionsIn(f)...)
		}
	}
	return problems
}

// refusal says why a file of core must not import a package, "" when it may.
func refusal(m *Module, f File, imported string) string {
	switch {
	case within(imported, m.Path): // CheckImports looks at these
		return ""
	case strings.Contains(strings.Split(imported, "/")[0], "."): // of another module
		libraries := []string{"gonum.org/v1/gonum"}
		if f.IsTest() {
			libraries = append(libraries, "pgregory.net/rapid", "github.com/google/go-cmp",
				"github.com/rogpeppe/go-internal", "golang.org/x/tools/txtar")
		}
		if !slices.ContainsFunc(libraries, func(l string) bool { return within(imported, l) }) {
			return "core takes the standard library and " + strings.Join(libraries, ", ") + " only"
		}
	case !f.IsTest() && slices.ContainsFunc(impure(), func(p string) bool { return within(imported, p) }):
		return "core decides and does no input or output"
	}
	return ""
}

// within reports whether a package is the parent or below it.
func within(imported, parent string) bool {
	return imported == parent || strings.HasPrefix(imported, parent+"/")
}

// functionsIn finds uses of impureFunctions. A variable that is called as a
// package of its file is taken for it; it deserves another name anyway.
func functionsIn(f File) []string {
	var problems []string
	byName := map[string]string{} // the file's name of a package: its path
	for i, spec := range f.Syntax.Imports {
		imported := f.Imports[i]
		name := path.Base(strings.TrimSuffix(imported, "/v2"))
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if name == "." {
			problems = append(problems, fmt.Sprintf("%s: imports %s without a name, which hides what is used of it", f.Path, imported))
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
