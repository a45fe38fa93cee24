package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// bom returns the list of the modules that are linked into a program, in CycloneDX JSON. It has no
// serial number and no time, which would differ between builds.
func bom(name string, info *debug.BuildInfo) ([]byte, error) {
	purl := func(path, version string) string { return "pkg:golang/" + path + "@" + version }
	root := purl(info.Main.Path, info.Main.Version)
	components := []cdx.Component{{Type: cdx.ComponentTypeLibrary, BOMRef: purl(goModule, goVersion(info)), Name: goModule,
		Version: goVersion(info), PackageURL: purl(goModule, goVersion(info)), Scope: cdx.ScopeRequired}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := cdx.Component{Type: cdx.ComponentTypeLibrary, BOMRef: purl(m.Path, m.Version), Name: m.Path, Version: m.Version,
			PackageURL: purl(m.Path, m.Version), Scope: cdx.ScopeRequired}
		if m.Sum != "" {
			c.Properties = &[]cdx.Property{{Name: "go:sum", Value: m.Sum}}
		}
		components = append(components, c)
	}
	list := cdx.NewBOM()
	list.Metadata = &cdx.Metadata{Component: &cdx.Component{Type: cdx.ComponentTypeApplication, BOMRef: root, Name: name,
		Version: info.Main.Version, PackageURL: root}}
	list.Components = &components
	refs := make([]string, 0, len(components))
	for _, c := range components {
		refs = append(refs, c.BOMRef)
	}
	list.Dependencies = &[]cdx.Dependency{{Ref: root, Dependencies: &refs}}
	var out bytes.Buffer
	encoder := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON)
	if err := encoder.SetPretty(true).EncodeVersion(list, cdx.SpecVersion1_6); err != nil {
		return nil, fmt.Errorf("write the list of modules: %w", err)
	}
	return out.Bytes(), nil
}

// text is a licence or notice.
type text struct {
	path string // of the module and the file
	data []byte
}

// licences finds the licences of modules in the module cache.
type licences struct {
	dirs map[string]string // of modules, by PATH@VERSION
}

func newLicences() *licences { return &licences{dirs: map[string]string{}} }

// notLinked are directories of a module that are in no program. Kubernetes has the licences of its
// dependencies in LICENSES.
var notLinked = map[string]bool{"LICENSES": true, "testdata": true, "vendor": true}

// licenceFile matches the names of files with licences, notices and their authors.
var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents|unlicense)([-._].*)?$`)

// of returns the licences of a program, of the modules in it, and of Go. A module without one is an
// error.
func (l *licences) of(ctx context.Context, info *debug.BuildInfo) ([]text, error) {
	if err := l.find(ctx); err != nil {
		return nil, err
	}
	goRoot, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOROOT: %w", err)
	}
	all, err := textsIn(l.dirs[info.Main.Path+"@"], info.Main.Path, false)
	if err != nil {
		return nil, err
	}
	ofGo, err := textsIn(strings.TrimSpace(string(goRoot)), goModule, false)
	if err != nil {
		return nil, err
	}
	all = append(all, ofGo...)
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		dir, ok := l.dirs[m.Path+"@"+m.Version]
		if !ok {
			return nil, fmt.Errorf("module %s@%s is not in the module cache", m.Path, m.Version)
		}
		texts, err := textsIn(dir, m.Path+"@"+m.Version, true)
		if err != nil {
			return nil, err
		}
		all = append(all, texts...)
	}
	return all, nil
}

// find reads the directories of all modules of the main module.
func (l *licences) find(ctx context.Context) error {
	if len(l.dirs) > 0 {
		return nil
	}
	var stderr bytes.Buffer
	command := exec.CommandContext(ctx, "go", "list", "-m", "-json=Path,Version,Dir", "all")
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return fmt.Errorf("go list -m all: %w\n%s", err, stderr.String())
	}
	decoder := json.NewDecoder(bytes.NewReader(out))
	for {
		var m struct{ Path, Version, Dir string }
		if err := decoder.Decode(&m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read the list of modules: %w", err)
		}
		if m.Dir != "" {
			l.dirs[m.Path+"@"+m.Version] = m.Dir
		}
	}
}

// textsIn returns the licences in a directory, and, if below is set, in those below it: parts of a module
// may have licences of their own.
func textsIn(dir, module string, below bool) (all []text, err error) {
	err = filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != dir && (!below || notLinked[entry.Name()]):
			return fs.SkipDir
		case !entry.Type().IsRegular() || !licenceFile.MatchString(entry.Name()) || strings.HasSuffix(entry.Name(), ".go"):
			return nil
		}
		data, err := os.ReadFile(name)
		all = append(all, text{module + strings.TrimPrefix(name, dir), data})
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("module %s has no licence file in %s: find out whether its code may be distributed", module, dir)
	}
	return all, nil
}
