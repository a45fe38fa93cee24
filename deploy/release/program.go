package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"pinfold.dev/pinfold/internal/ociimage"
)

// program is a program that gets an image.
type program struct {
	name, pkg, title, user string
	// more are the packages of further programs in the image.
	more []string
}

func programs() []program {
	return []program{
		{"pinfold-scheduler", "pinfold.dev/pinfold/cmd/pinfold-scheduler", "Pinfold's scheduler: kube-scheduler that also chooses CPUs", "65532:65532", nil},
		// The files of control groups and the sockets of the runtime and of systemd belong to root.
		{"pinfold-agent", "pinfold.dev/pinfold/cmd/pinfold-agent", "Pinfold's node agent: applies CPU decisions to the cgroups of its node", "0:0",
			[]string{"pinfold.dev/pinfold/cmd/pinfold"}}, // for "kubectl pinfold sample" and "why"
	}
}

// compile compiles a program, statically and without paths of this machine. The compiler writes the
// names of packages to progress.
func (o options) compile(ctx context.Context, pkg, out string, p platform) error {
	command := exec.CommandContext(ctx, "go", "build", "-v", "-trimpath", "-ldflags", o.ldflags, "-o", out, pkg)
	command.Stdout, command.Stderr = o.progress, o.progress
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.OS, "GOARCH="+p.Arch, "GOAMD64=v1", "GOARM64=v8.0")
	if err := command.Run(); err != nil {
		return fmt.Errorf("go build %s for %s: %w", pkg, p, err)
	}
	return nil
}

// Paths in the images.
const (
	sbomPath    = "usr/share/sbom/%s.cdx.json"
	licencesDir = "usr/share/licenses/"
)

// image returns the image of compiled programs, p's first, and how that was built.
func (p program) image(ctx context.Context, paths []string, on platform, all *licences) (v1.Image, *debug.BuildInfo, error) {
	var files []ociimage.File
	var info *debug.BuildInfo
	for _, path := range slices.Backward(paths) {
		contents, of, err := contents(ctx, path, on, all)
		if err != nil {
			return nil, nil, err
		}
		files, info = append(files, contents...), of
	}
	slices.SortFunc(files, func(a, b ociimage.File) int { return strings.Compare(a.Name, b.Name) })
	// The programs have licences in common.
	files = slices.CompactFunc(files, func(a, b ociimage.File) bool { return a.Name == b.Name && bytes.Equal(a.Data, b.Data) })
	made, err := ociimage.Build(ociimage.Spec{
		Architecture: on.Arch, Files: files, Compress: true,
		Config: v1.Config{
			Entrypoint: []string{"/" + p.name},
			User:       p.user,
			WorkingDir: "/",
			Labels: map[string]string{
				"org.opencontainers.image.title":       p.name,
				"org.opencontainers.image.version":     info.Main.Version,
				"org.opencontainers.image.revision":    setting(info, "vcs.revision"),
				"org.opencontainers.image.licenses":    "Apache-2.0",
				"org.opencontainers.image.description": p.title,
			},
		},
	})
	return made, info, err
}

// contents returns the files of one program: itself, licences, and the list of what is linked.
func contents(ctx context.Context, path string, on platform, all *licences) ([]ociimage.File, *debug.BuildInfo, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	if err := checkTarget(info, on); err != nil {
		return nil, nil, err
	}
	executable, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	name := filepath.Base(path)
	files := []ociimage.File{{Name: name, Mode: 0o755, Data: executable}}
	texts, err := all.of(ctx, info)
	if err != nil {
		return nil, nil, err
	}
	for _, text := range texts {
		files = append(files, ociimage.File{Name: licencesDir + text.path, Mode: 0o644, Data: text.data})
	}
	list, err := bom(name, info)
	return append(files, ociimage.File{Name: fmt.Sprintf(sbomPath, name), Mode: 0o644, Data: list}), info, err
}

// checkTarget checks that a program was built for the platform, and runs without a C library.
func checkTarget(info *debug.BuildInfo, p platform) error {
	if built := (platform{setting(info, "GOOS"), setting(info, "GOARCH")}); built != p {
		return fmt.Errorf("the program was built for %s", built)
	}
	if setting(info, "CGO_ENABLED") != "0" {
		return errors.New("the program was built with cgo and may need a C library: set CGO_ENABLED=0")
	}
	return nil
}

func setting(info *debug.BuildInfo, key string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

// goModule is the name of the standard library in the list of modules.
const goModule = "std"

// goVersion returns the version of the Go toolchain without the experiments in it.
func goVersion(info *debug.BuildInfo) string {
	version, _, _ := strings.Cut(strings.TrimPrefix(info.GoVersion, "go"), " ")
	return version
}
