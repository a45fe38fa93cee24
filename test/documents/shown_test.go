package documents

import (
	"fmt"
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

// TestMessagesAreShown checks that testdata/shown.txt says where an operator sees each reason of events
// and each log line of level WARN or above, and nothing that is gone. What it says of "pinfold status" is
// tried by TestShown of package agent, and by the scenarios of the command.
func TestMessagesAreShown(t *testing.T) {
	shown := places(t)
	produced := map[string]bool{}
	for _, m := range messages(t) {
		produced[m.text] = true
		place, listed := shown[m.text]
		if !listed {
			t.Errorf("%s: testdata/shown.txt does not say where an operator sees %q", m.at, m.text)
		} else if m.shown != "" && m.shown != place {
			t.Errorf("%s: %q is shown as %s, and testdata/shown.txt says %q", m.at, m.text, m.shown, place)
		}
	}
	for text, place := range shown {
		if !produced[text] {
			t.Errorf("testdata/shown.txt says that %q is shown as %q, and nothing says it any more", text, place)
		}
		if kind, ok := strings.CutPrefix(place, "status "); ok && !scenarioShows(t, kind) {
			t.Errorf("no scenario of pinfold status shows %s", kind)
		}
	}
}

// places returns where each message is shown. A line that is not indented is a place, and others are
// what is shown there.
func places(t *testing.T) map[string]string {
	all, place := map[string]string{}, ""
	for line := range strings.Lines(string(must.Get(os.ReadFile("testdata/shown.txt"))(t))) {
		switch text := strings.TrimSpace(line); {
		case text == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, " "):
			if all[text] != "" {
				t.Errorf("testdata/shown.txt: %q is there twice", text)
			}
			all[text] = place
		default:
			place = text
		}
	}
	return all
}

// scenarioShows reports whether a scenario of "pinfold status" prints a problem of a kind.
func scenarioShows(t *testing.T, kind string) bool {
	line := regexp.MustCompile(`(?m)^  ` + kind + `(,|$)`)
	files := must.Get(filepath.Glob("../../cmd/pinfold/internal/status/testdata/*.txtar"))(t)
	return slices.ContainsFunc(files, func(file string) bool { return line.Match(must.Get(os.ReadFile(file))(t)) })
}

// message is a log line or the reason of an event.
type message struct {
	text, at string
	shown    string // the place of a warning that stands (package logdedup)
}

// messages returns what the programs can say, from their source.
func messages(t *testing.T) (all []message) {
	const reason = `(?m)^\t\w.* = "(\w+)"`
	for _, file := range []string{"agent/control/groups/notice.go", "core/nodeplan/finding.go"} {
		for _, found := range regexp.MustCompile(reason).FindAllStringSubmatch(read(t, file), -1) {
			all = append(all, message{text: found[1], at: file})
		}
	}
	for _, dir := range []string{"agent", "cmd", "core", "internal", "kube", "linux", "local", "report", "tracefile"} {
		must.Do(t, filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && strings.HasSuffix(path, "test") {
				err = filepath.SkipDir
			}
			if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") && d.Name() != "logdedup.go" { // which logs for others
				all = append(all, messagesOf(t, path)...)
			}
			return err
		}))
	}
	return all
}

func messagesOf(t *testing.T, path string) (all []message) {
	files := token.NewFileSet()
	file := must.Get(parser.ParseFile(files, path, nil, parser.SkipObjectResolution))(t)
	name, _ := filepath.Rel(root, path)
	var table [][]string // the strings of composite literals, in which a message can be
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			var texts []string
			for _, e := range n.Elts {
				texts = append(texts, textOf(file, e))
			}
			table = append(table, texts)
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Reason" && isString(n.Value) && strings.HasPrefix(name, "agent/") {
				all = append(all, message{text: textOf(file, n.Value), at: name})
			}
		case *ast.SelectorExpr:
			if n.Sel.Name == "LevelWarn" || n.Sel.Name == "LevelError" {
				all = append(all, message{text: n.Sel.Name + " in " + name, at: name})
			}
		case *ast.CallExpr:
			all = append(all, logged(file, n, table, name)...)
		}
		return true
	})
	return all
}

// logged returns what a call logs: that of a slog.Logger, a logdedup.Log, a logr.Logger or of klog.
func logged(file *ast.File, call *ast.CallExpr, table [][]string, at string) (all []message) {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 {
		return nil
	}
	of, text := lastName(method.X), func(i int) string { return textOf(file, call.Args[i]) }
	switch method.Sel.Name {
	case "Warn", "WarnOrClear":
		if strings.EqualFold(of, "dedup") {
			return standing(text(0), text(1), table, at)
		}
		return []message{{text(0), at, ""}}
	case "Error", "ErrorS":
		if of == "http" || of == "status" || len(call.Args) == 1 && !isString(call.Args[0]) {
			return nil
		}
		if isString(call.Args[0]) {
			return []message{{text(0), at, ""}}
		}
		return []message{{text(1), at, ""}}
	case "Eventf":
		return []message{{text(3), at, ""}}
	}
	return nil
}

// standing returns a warning about something. If both are variables, they are those of a table.
func standing(about, text string, table [][]string, at string) (all []message) {
	if text == "" {
		for _, texts := range table {
			if len(texts) > 2 && texts[0] != "" && texts[1] != "" {
				all = append(all, standing(texts[0], texts[1], nil, at)...)
			}
		}
		return all
	}
	switch about {
	case "claims", "features":
		return []message{{text, at, "ClaimsNotServed"}}
	case "given":
		return []message{{text, at, "CannotSave"}}
	}
	return []message{{text, at, "AgentImpaired"}}
}

func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

func isString(e ast.Expr) bool {
	literal, ok := e.(*ast.BasicLit)
	return ok && literal.Kind == token.STRING
}

// textOf returns the text of an expression, with "..." for what only the running program knows; "" if
// that is all.
func textOf(file *ast.File, e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil {
			return text
		}
	case *ast.BinaryExpr:
		if left, right := textOf(file, e.X), textOf(file, e.Y); left+right != "" {
			return fmt.Sprint(orUnknown(left), orUnknown(right))
		}
	case *ast.CallExpr:
		if lastName(e.Fun) == "Sprintf" {
			return textOf(file, e.Args[0])
		}
	case *ast.Ident:
		for _, d := range file.Decls {
			if general, ok := d.(*ast.GenDecl); ok && general.Tok == token.CONST {
				for _, spec := range general.Specs {
					if value := spec.(*ast.ValueSpec); value.Names[0].Name == e.Name && len(value.Values) > 0 {
						return textOf(file, value.Values[0])
					}
				}
			}
		}
	}
	return ""
}

func orUnknown(text string) string {
	if text == "" {
		return "..."
	}
	return text
}
