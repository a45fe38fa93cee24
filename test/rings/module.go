package rings

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// Module is the Go source of one module.
type Module struct {
	Path  string // as in go.mod
	Files []File
}

// File is one .go file.
type File struct {
	Path    string // slash-separated, relative to the module's root
	Syntax  *ast.File
	Imports []string
	Lines   int
}

// Dir returns the directory of the file, "." for the root.
func (f File) Dir() string { return path.Dir(f.Path) }

// IsTest reports whether the file is test code; see the package comment.
func (f File) IsTest() bool {
	return strings.HasSuffix(f.Path, "_test.go") || isTestPackage(f.Dir())
}

func isTestPackage(dir string) bool {
	return strings.HasSuffix(dir, "test") && strings.Contains(dir, "/")
}

// Read parses the module in a directory.
func Read(root fs.FS) (*Module, error) {
	name, err := modulePath(root)
	if err != nil {
		return nil, err
	}
	m := &Module{Path: name}
	err = fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return skipDir(root, name)
		}
		if !strings.HasSuffix(name, ".go") || ignored(path.Base(name)) {
			return nil
		}
		f, err := readFile(root, name)
		if err != nil {
			return err
		}
		m.Files = append(m.Files, f)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read module %s: %w", m.Path, err)
	}
	return m, nil
}

func modulePath(root fs.FS) (string, error) {
	text, err := fs.ReadFile(root, "go.mod")
	if err != nil {
		return "", fmt.Errorf("read module: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "module "); ok {
			return strings.TrimSpace(name), nil
		}
	}
	return "", errors.New("read module: go.mod has no module line")
}

// skipDir returns fs.SkipDir for directories that do not belong to the module, nor to one that is a
// room.
func skipDir(root fs.FS, dir string) error {
	if dir == "." {
		return nil
	}
	base := path.Base(dir)
	if ignored(base) || base == "testdata" || base == "vendor" {
		return fs.SkipDir
	}
	if _, err := fs.Stat(root, path.Join(dir, "go.mod")); err == nil && rooms()[dir] == nil {
		return fs.SkipDir
	}
	return nil
}

// ignored reports whether the go command ignores files and directories of that name.
func ignored(base string) bool { return base[0] == '.' || base[0] == '_' }

func readFile(root fs.FS, name string) (File, error) {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return File{}, err
	}
	syntax, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments)
	if err != nil {
		return File{}, err
	}
	f := File{Path: name, Syntax: syntax, Lines: bytes.Count(text, []byte("\n"))}
	for _, spec := range syntax.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return File{}, fmt.Errorf("%s: import %s: %w", name, spec.Path.Value, err)
		}
		f.Imports = append(f.Imports, imported)
	}
	return f, nil
}
