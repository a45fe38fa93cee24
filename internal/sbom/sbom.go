// Package sbom lists what is linked into a Go program.
package sbom

import (
	"bytes"
	"fmt"
	"runtime/debug"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// GoModule is the name of the standard library in the list of modules.
const GoModule = "std"

// goVersion returns the version of the Go toolchain without the experiments in it.
func goVersion(info *debug.BuildInfo) string {
	version, _, _ := strings.Cut(strings.TrimPrefix(info.GoVersion, "go"), " ")
	return version
}

// New returns the list of the modules that are linked into a program, in CycloneDX JSON. It has no
// serial number and no time, which would differ between builds.
func New(name string, info *debug.BuildInfo) ([]byte, error) {
	purl := func(path, version string) string { return "pkg:golang/" + path + "@" + version }
	root := purl(info.Main.Path, info.Main.Version)
	components := []cdx.Component{{Type: cdx.ComponentTypeLibrary, BOMRef: purl(GoModule, goVersion(info)), Name: GoModule,
		Version: goVersion(info), PackageURL: purl(GoModule, goVersion(info)), Scope: cdx.ScopeRequired}}
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
