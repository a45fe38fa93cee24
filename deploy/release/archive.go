package main

import (
	"bytes"
	"compress/gzip"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"text/template"

	"pinfold.dev/pinfold/internal/ociimage"
)

// The command line's package.
const cliPackage = "pinfold.dev/pinfold/cmd/pinfold"

// homepage is where the source is, for krew and the provenance.
const homepage = "https://pinfold.dev/pinfold"

//go:embed pinfold.yaml.tmpl
var krewManifest string

//go:embed kubectl_complete-pinfold
var krewCompletion []byte

// archive is an archive of the command pinfold.
type archive struct {
	platform
	Name, SHA256 string
}

// archives returns the archives of the command pinfold for each platform, the manifest by which krew
// installs it from them as a plugin of kubectl, and the list of what is linked into each.
func (o options) archives(ctx context.Context) (all []ociimage.File, err error) {
	dir, err := os.MkdirTemp("", "pinfold-cli-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	here := platform{runtime.GOOS, runtime.GOARCH}
	program := func(p platform) string { return filepath.Join(dir, p.String(), "pinfold") }
	if err := o.compile(ctx, cliPackage, program(here), here); err != nil {
		return nil, err
	}
	common, err := manual(ctx, program(here))
	if err != nil {
		return nil, err
	}
	common = append(common, ociimage.File{Name: "kubectl_complete-pinfold", Mode: 0o755, Data: krewCompletion})
	licences := newLicences()
	manifest := struct {
		Version, URL, Homepage string
		Archives               []archive
	}{Version: o.version, URL: o.url, Homepage: homepage}
	for _, p := range o.platforms {
		fmt.Fprintf(o.progress, "building pinfold for %s\n", p)
		if p != here {
			if err := o.compile(ctx, cliPackage, program(p), p); err != nil {
				return nil, err
			}
		}
		files, info, err := contents(ctx, program(p), p, licences)
		if err != nil {
			return nil, err
		}
		made := archive{platform: p, Name: fmt.Sprintf("pinfold_%s.tar.gz", p)}
		data, err := zipped(append(files, common...))
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", made.Name, err)
		}
		made.SHA256 = checksum(data)
		manifest.Archives = append(manifest.Archives, made)
		list, err := bom("pinfold", info)
		if err != nil {
			return nil, err
		}
		all = append(all, ociimage.File{Name: made.Name, Mode: 0o644, Data: data},
			ociimage.File{Name: fmt.Sprintf("pinfold_%s.cdx.json", p), Mode: 0o644, Data: list})
	}
	text, err := template.New(manifestFile).Parse(krewManifest)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := text.Execute(&out, manifest); err != nil {
		return nil, err
	}
	return append(all, ociimage.File{Name: manifestFile, Mode: 0o644, Data: out.Bytes()}), nil
}

// manual returns completions and manual pages, as the program itself writes them.
func manual(ctx context.Context, program string) (files []ociimage.File, err error) {
	pages := filepath.Join(filepath.Dir(program), "man1")
	for shell, name := range map[string]string{"bash": "pinfold", "zsh": "_pinfold", "fish": "pinfold.fish"} {
		text, err := exec.CommandContext(ctx, program, "completion", shell).Output()
		if err != nil {
			return nil, fmt.Errorf("%s completion %s: %w", program, shell, err)
		}
		files = append(files, ociimage.File{Name: "completion/" + shell + "/" + name, Mode: 0o644, Data: text})
	}
	if text, err := exec.CommandContext(ctx, program, "manual", pages).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s manual: %w\n%s", program, err, text)
	}
	entries, err := os.ReadDir(pages)
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(pages, entry.Name()))
		if err != nil {
			return nil, err
		}
		files = append(files, ociimage.File{Name: "man/man1/" + entry.Name(), Mode: 0o644, Data: text})
	}
	return files, err
}

// zipped returns a compressed archive. The same files give the same bytes: owners, times and modes in
// it do not depend on the machine.
func zipped(files []ociimage.File) ([]byte, error) {
	data, err := ociimage.Tar(files)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	if _, err := zip.Write(data); err != nil {
		return nil, err
	}
	err = zip.Close()
	return out.Bytes(), err
}

// manifestFile is the manifest for krew. A directory with one contains a release.
const manifestFile = "pinfold.yaml"

// replaceable returns an error if a directory contains anything but a release.
func replaceable(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err == nil {
		_, err = os.Stat(filepath.Join(dir, manifestFile))
	}
	if err != nil {
		return fmt.Errorf("%s is not empty and no release: name another directory (%w)", dir, err)
	}
	return nil
}

// writeFiles writes files to a directory.
func writeFiles(dir string, files []ociimage.File) error {
	for _, file := range files {
		if err := os.WriteFile(filepath.Join(dir, file.Name), file.Data, os.FileMode(file.Mode)); err != nil {
			return err
		}
	}
	return nil
}
