package main

import (
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pinfold.dev/pinfold/internal/ociimage"
	"pinfold.dev/pinfold/internal/sbom"
)

// plugin builds the plugin of kubectl for every platform, with the manifest for krew. Its programs,
// in directories OS_ARCH, are also those of the archives.
func (r *release) plugin(ctx context.Context) error {
	_, err := r.run(ctx, "make", "--no-print-directory", "krew", "VERSION="+r.version, "URL="+r.url, "KREW="+r.path())
	return err
}

// archives writes an archive of the command for every platform, and lists what is linked into it. The
// programs themselves are removed.
func (r *release) archives(ctx context.Context) error {
	shared, err := r.documents(ctx)
	if err != nil {
		return err
	}
	programs, err := filepath.Glob(r.path("*", "kubectl-pinfold"))
	if err != nil || len(programs) == 0 {
		return errors.Join(err, errors.New("there are no programs for archives"))
	}
	for _, program := range programs {
		platform := filepath.Base(filepath.Dir(program))
		data, err := os.ReadFile(program)
		if err != nil {
			return err
		}
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			return fmt.Errorf("read %s: %w", program, err)
		}
		if info.Main.Version != r.version {
			return fmt.Errorf("the program for %s says that it is of version %s, not %s", platform, info.Main.Version, r.version)
		}
		list, err := sbom.New("pinfold", info)
		if err != nil {
			return err
		}
		archive, err := ociimage.Archive(append(slices.Clone(shared), ociimage.File{Name: "pinfold", Mode: 0o755, Data: data}))
		if err != nil {
			return err
		}
		if err := errors.Join(
			os.WriteFile(r.path(fmt.Sprintf("pinfold_%s_%s.tar.gz", r.version, platform)), archive, 0o644),
			os.WriteFile(r.path(fmt.Sprintf("pinfold_%s_%s.cdx.json", r.version, platform)), list, 0o644),
			os.RemoveAll(filepath.Dir(program)),
		); err != nil {
			return err
		}
	}
	return nil
}

// documents returns the files that the archives of all platforms have: licence, completions and manual
// pages.
func (r *release) documents(ctx context.Context) ([]ociimage.File, error) {
	licence, err := os.ReadFile(filepath.Join(r.source, "LICENSE"))
	if err != nil {
		return nil, err
	}
	files := []ociimage.File{{Name: "LICENSE", Mode: 0o644, Data: licence}}
	dir := r.path("documents")
	if _, err := r.run(ctx, "go", "run", "-tags", "documents", "./cmd/pinfold", "documents", dir, r.time); err != nil {
		return nil, err
	}
	err = filepath.WalkDir(dir, func(file string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, file)
		files = append(files, ociimage.File{Name: filepath.ToSlash(name), Mode: 0o644, Data: data})
		return err
	})
	return files, errors.Join(err, os.RemoveAll(dir))
}

// notes writes the changes of the version.
func (r *release) notes(context.Context) error {
	text, err := r.changes()
	if err != nil {
		return err
	}
	return os.WriteFile(r.path("notes.md"), []byte(text), 0o644)
}

// changes returns the section of the version in the changelog.
func (r *release) changes() (string, error) {
	text, err := os.ReadFile(filepath.Join(r.source, "CHANGELOG.md"))
	if err != nil {
		return "", err
	}
	for section := range strings.SplitSeq(string(text), "\n## ") {
		title, body, _ := strings.Cut(section, "\n")
		if fields := strings.Fields(title); len(fields) > 0 && strings.TrimRight(fields[0], ",:") == r.version {
			return strings.TrimSpace(body) + "\n", nil
		}
	}
	return "", fmt.Errorf("CHANGELOG.md has no section \"## %s\": give \"Unreleased\" that title, with the date, before the tag", r.version)
}

// sums returns the SHA-256 of the files of the release, by name.
func (r *release) sums() (map[string]string, error) {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, entry := range entries {
		if entry.IsDir() {
			continue
		}
		data, err := os.ReadFile(r.path(entry.Name()))
		if err != nil {
			return nil, err
		}
		all[entry.Name()] = fmt.Sprintf("%x", sha256.Sum256(data))
	}
	return all, nil
}
