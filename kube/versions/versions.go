// Package versions says which minor versions of Kubernetes Pinfold's scheduler can run as, and
// reads that of an API server:
//
//	version, err := versions.Of(info) // the answer to /version
//	if err == nil {
//		err = versions.Check(version)
//	}
//
// The newest is that of the Kubernetes modules in go.mod. Chart and documents name the same ones,
// which tests check.
package versions

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	info "k8s.io/apimachinery/pkg/version"
	baseversion "k8s.io/component-base/version"
)

// emulated is the number of minor versions before its own that Kubernetes can emulate
// (k8s.io/apiserver pkg/util/compatibility, 1.37).
const emulated = 3

// Newest returns the minor version of the Kubernetes that is linked into this program.
func Newest() *version.Version { return version.MustParseGeneric(baseversion.DefaultKubeBinaryVersion) }

// Oldest returns the oldest minor version that a component of this program can emulate.
func Oldest() *version.Version { return Newest().SubtractMinor(emulated) }

// Supported lists the minor versions that the scheduler can run as, the oldest first.
func Supported() []string {
	var list []string
	for v := Oldest(); !Newest().LessThan(v); v = v.AddMinor(1) {
		list = append(list, v.String())
	}
	return list
}

// Check returns an error that names the supported versions if v is not one of them.
func Check(v *version.Version) error {
	if slices.Contains(Supported(), v.String()) {
		return nil
	}
	return fmt.Errorf("version %s of Kubernetes is not supported: %s are", v, strings.Join(Supported(), ", "))
}

// Parse reads a supported minor version, such as 1.34 or v1.34.
func Parse(text string) (*version.Version, error) {
	v, err := version.ParseGeneric(text)
	if err != nil || len(v.Components()) != 2 {
		return nil, fmt.Errorf("%q is not a minor version of Kubernetes: use one of %s", text, strings.Join(Supported(), ", "))
	}
	return v, Check(v)
}

// Of returns the minor version whose APIs a server has, from its answer to /version. Since 1.33
// servers name it apart from that of their program. Providers append text to the numbers, such as
// "34+".
func Of(server *info.Info) (*version.Version, error) {
	for _, text := range []string{
		digits(server.EmulationMajor) + "." + digits(server.EmulationMinor),
		digits(server.Major) + "." + digits(server.Minor),
		server.GitVersion,
	} {
		if v, err := version.ParseGeneric(text); err == nil {
			return version.MajorMinor(v.Major(), v.Minor()), nil
		}
	}
	return nil, fmt.Errorf("the server's version has no number: major %q, minor %q, gitVersion %q", server.Major, server.Minor, server.GitVersion)
}

// digits returns the number at the start of text.
func digits(text string) string {
	text = strings.TrimSpace(text)
	end := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		return text
	}
	return text[:end]
}
