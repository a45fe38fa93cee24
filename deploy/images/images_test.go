package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"log"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"pinfold.dev/pinfold/internal/sbom"
	"pinfold.dev/pinfold/test/must"
)

// small is a program that is built within a second, and links modules.
func small() []program {
	return []program{{"version", "pinfold.dev/pinfold/deploy/images", "a test", "65532:65532", []string{"pinfold.dev/pinfold/deploy/krew"}}}
}

// TestImages builds images of both platforms, pushes them, pulls them again and looks into them. A
// second build has the same digest.
func TestImages(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	repository := strings.TrimPrefix(server.URL, "http://") + "/team"
	dir := filepath.Join(t.TempDir(), "images")
	build := func(more ...string) string {
		t.Helper()
		var stdout, stderr bytes.Buffer
		if err := run(t.Context(), small(), append([]string{"-o", dir, "-tag", "v1"}, more...), &stdout, &stderr); err != nil {
			t.Fatalf("%v\n%s", err, stderr.String())
		}
		return stdout.String()
	}
	pushed := build("-push", repository)
	_, digest, ok := strings.Cut(strings.TrimSpace(pushed), "@")
	if !ok || !strings.HasPrefix(pushed, repository+"/version:v1@sha256:") {
		t.Fatalf("it printed %q", pushed)
	}
	if again := build(); !strings.HasSuffix(again, "@"+digest+"\n") || !strings.HasPrefix(again, "pinfold.dev/version:v1@") {
		t.Errorf("the second build printed %q, the first %q", again, pushed)
	}
	tag := must.Get(name.NewTag(repository + "/version:v1"))(t)
	index := must.Get(remote.Index(tag))(t)
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest := must.Get(index.IndexManifest())(t)
	var platforms []string
	for _, m := range manifest.Manifests {
		platforms = append(platforms, m.Platform.String())
		image := must.Get(index.Image(m.Digest))(t)
		inspect(t, image, m.Platform.Architecture)
	}
	if want := []string{"linux/amd64", "linux/arm64"}; !slices.Equal(platforms, want) {
		t.Errorf("platforms %q, want %q", platforms, want)
	}
}

// inspect checks the files and the configuration of an image.
func inspect(t *testing.T, image v1.Image, architecture string) {
	t.Helper()
	config := must.Get(image.ConfigFile())(t)
	if config.Architecture != architecture || config.Config.User != "65532:65532" || !slices.Equal(config.Config.Entrypoint, []string{"/version"}) {
		t.Errorf("configuration %+v", config)
	}
	files := map[string][]byte{}
	content := mutate.Extract(image)
	defer content.Close()
	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			files[header.Name], err = io.ReadAll(archive)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"version", "krew"} {
		if !bytes.HasPrefix(files[name], []byte("\x7fELF")) || len(files["usr/share/sbom/"+name+".cdx.json"]) == 0 {
			t.Errorf("the image has no program %s, or no list of its modules", name)
		}
	}
	for _, path := range []string{"pinfold.dev/pinfold/LICENSE", "std/LICENSE"} {
		if len(files[licencesDir+path]) == 0 {
			t.Errorf("the image has no %s", path)
		}
	}
	var list cdx.BOM
	must.Do(t, cdx.NewBOMDecoder(bytes.NewReader(files["usr/share/sbom/version.cdx.json"]), cdx.BOMFileFormatJSON).Decode(&list))
	for _, c := range *list.Components {
		found := slices.ContainsFunc(slices.Collect(maps.Keys(files)), func(name string) bool {
			return strings.HasPrefix(name, licencesDir+c.Name+"@"+c.Version+"/") || c.Name == sbom.GoModule
		})
		if !found {
			t.Errorf("module %s %s is in the list, but its licence is not in the image", c.Name, c.Version)
		}
	}
	if !slices.ContainsFunc(*list.Components, func(c cdx.Component) bool { return c.Name == "github.com/google/go-containerregistry" }) {
		t.Errorf("the list lacks a module: %+v", *list.Components)
	}
}

// TestWrongUsage says what the errors contain.
func TestWrongUsage(t *testing.T) {
	full := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(full, "precious"), nil, 0o600))
	for args, says := range map[string]string{
		"-platforms linux/riscv64":        `platform "linux/riscv64": there are linux/amd64 and linux/arm64`,
		"-push Registry/Team":             `-push "Registry/Team": give a registry and a path`,
		"-tag v1 all":                     `"all" is not a flag`,
		"-fly":                            "flag provided but not defined: -fly",
		"-platforms linux/amd64 -tag a+b": `-tag "a+b"`,
		"-platforms linux/amd64 -tag v1 -o " + full:     "is not empty and no OCI image layout",
		"-platforms linux/amd64 -push 127.0.0.1:1/team": "push 127.0.0.1:1/team/version",
	} {
		var out bytes.Buffer
		if !strings.Contains(args, "-o ") {
			args = "-o " + filepath.Join(t.TempDir(), "images") + " " + args
		}
		err := run(t.Context(), small(), strings.Fields(args), &out, &out)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", args, err, says)
		}
	}
	if _, err := os.Stat(filepath.Join(full, "precious")); err != nil {
		t.Error(err)
	}
}

// TestPrograms rejects programs for other platforms, and modules without a licence.
func TestPrograms(t *testing.T) {
	settings := func(goos, arch, cgo string) *debug.BuildInfo {
		return &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "GOOS", Value: goos}, {Key: "GOARCH", Value: arch}, {Key: "CGO_ENABLED", Value: cgo}}}
	}
	if err := checkTarget(settings("linux", "arm64", "0"), "arm64"); err != nil {
		t.Error(err)
	}
	for says, info := range map[string]*debug.BuildInfo{
		"built for linux/amd64": settings("linux", "amd64", "0"), "built for darwin/arm64": settings("darwin", "arm64", "0"), "with cgo": settings("linux", "arm64", "1"),
	} {
		if err := checkTarget(info, "arm64"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "license.go"), []byte("package license"), 0o600))
	if _, err := textsIn(dir, "example.com/m@v1"); err == nil || !strings.Contains(err.Error(), "module example.com/m@v1 has no licence file") {
		t.Errorf("a module without a licence: %v", err)
	}
	for version, want := range map[string]string{"v1.2.3": "v1.2.3", "(devel)": "devel", "v0.0.0-20260102150405-0123456789ab+dirty": "v0.0.0-20260102150405-0123456789ab-dirty"} {
		if got := tagOf(version); got != want {
			t.Errorf("tag of %s is %s, want %s", version, got, want)
		}
	}
}
