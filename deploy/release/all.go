package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"pinfold.dev/pinfold/internal/ociimage"
)

// release makes a whole release. Everything that can be wrong is asked for before anything is
// built, and everything is written before anything is pushed.
func (o options) release(ctx context.Context, stdout io.Writer) error {
	s, err := loadSigner(o.key)
	if err != nil {
		return err
	}
	from, err := o.tagged(ctx)
	if err != nil {
		return err
	}
	changelog, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return err
	}
	changes, err := section(string(changelog), o.version)
	if err != nil {
		return err
	}
	o.tag = o.number()
	images, err := o.images(ctx)
	if err != nil {
		return err
	}
	cli := o
	for _, one := range images {
		if path.Base(one.tag.RepositoryStr()) == "pinfold-agent" {
			cli.ldflags += fmt.Sprintf(" -X %s/internal/cluster.ReleasedImage=%s", cliPackage, one.tag.Context().Digest(one.digest.String()))
		}
	}
	files, err := cli.archives(ctx)
	if err != nil {
		return err
	}
	for _, one := range images {
		for name, data := range one.lists {
			files = append(files, ociimage.File{Name: name, Mode: 0o644, Data: data})
		}
	}
	archive, chart, err := o.chart(images)
	if err != nil {
		return err
	}
	artefacts := append(slices.Clip(images), chart)
	var digests strings.Builder
	for _, one := range artefacts {
		fmt.Fprintln(&digests, one)
	}
	files = append(files, archive,
		ociimage.File{Name: "digests.txt", Mode: 0o644, Data: []byte(digests.String())},
		ociimage.File{Name: "NOTES.md", Mode: 0o644, Data: []byte(o.notes(changes))})
	slices.SortFunc(files, func(a, b ociimage.File) int { return strings.Compare(a.Name, b.Name) })
	if files, err = o.signed(s, from, files, artefacts); err != nil {
		return err
	}
	others := []artefact{chart}
	for _, one := range artefacts {
		sig, err := s.signatureOf(one)
		if err != nil {
			return fmt.Errorf("sign %s: %w", one, err)
		}
		others = append(others, sig)
	}
	write := func(dir string) error {
		// A container runtime that loads a layout fails at entries that are not images, so these have one of their own.
		return errors.Join(writeFiles(dir, files), writeLayout(filepath.Join(dir, "images"), images), writeLayout(filepath.Join(dir, "chart"), others))
	}
	if err := ociimage.ReplaceDir(o.out, replaceable, write); err != nil {
		return err
	}
	if err := o.pushAll(ctx, slices.Concat(images, others)); err != nil {
		return err
	}
	fmt.Fprint(stdout, digests.String())
	return nil
}

// tagged returns the source, if the working directory is the commit of the version's tag, and nothing
// else.
func (o options) tagged(ctx context.Context) (source, error) {
	git := func(args ...string) (string, error) {
		var stderr bytes.Buffer
		command := exec.CommandContext(ctx, "git", args...)
		command.Stderr = &stderr
		out, err := command.Output()
		if err != nil {
			return "", fmt.Errorf("git %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
		}
		return strings.TrimSpace(string(out)), nil
	}
	head, err := git("rev-parse", "HEAD")
	if err != nil {
		return source{}, err
	}
	if commit, err := git("rev-parse", "--verify", "--quiet", "refs/tags/"+o.version+"^{commit}"); err != nil {
		return source{}, fmt.Errorf("there is no tag %s: git tag %s", o.version, o.version)
	} else if commit != head {
		return source{}, fmt.Errorf("tag %s is commit %.12s, and this is %.12s: git checkout %s", o.version, commit, head, o.version)
	}
	if changed, err := git("status", "--porcelain"); err != nil {
		return source{}, err
	} else if changed != "" {
		return source{}, fmt.Errorf("a release is made of what its tag has, and these files are not in it: commit or remove them\n%s", changed)
	}
	return source{head, strings.TrimPrefix(runtime.Version(), "go")}, nil
}

// section returns what the changelog says of a version: below "## v0.1.0 (DATE)", or "## Unreleased" if
// it is a candidate such as v0.1.0-rc.1.
func section(changelog, version string) (string, error) {
	heading := version
	if strings.Contains(version, "-") {
		heading = "Unreleased"
	}
	at := regexp.MustCompile(`(?m)^## ` + regexp.QuoteMeta(heading) + `( .*)?$`).FindStringIndex(changelog)
	if at == nil {
		return "", fmt.Errorf("CHANGELOG.md has no section %q: give that name to what is unreleased", "## "+heading)
	}
	text, _, _ := strings.Cut(changelog[at[1]:], "\n## ")
	return strings.TrimSpace(text) + "\n", nil
}

// notes returns the text of the release's page.
func (o options) notes(changes string) string {
	return fmt.Sprintf(`# Pinfold %[1]s

The API is v1alpha1: it may change in the next version.

    curl -fsSL %[2]s/pinfold_linux_amd64.tar.gz | tar -xz pinfold && install -D pinfold ~/.local/bin/kubectl-pinfold
    kubectl pinfold top
    helm install pinfold oci://%[3]s/charts/pinfold --version %[4]s --namespace pinfold-system --create-namespace --set agent.mode=observe

%[5]s`, o.version, o.url, o.registry, o.number(), changes)
}

// signed adds provenance, checksums, their signature, and the public key.
func (o options) signed(s signer, from source, files []ociimage.File, artefacts []artefact) ([]ociimage.File, error) {
	envelope, err := s.provenance(o, from, files, artefacts)
	if err != nil {
		return nil, fmt.Errorf("sign the provenance: %w", err)
	}
	files = append(files, ociimage.File{Name: "provenance.intoto.jsonl", Mode: 0o644, Data: append(envelope, '\n')})
	var sums bytes.Buffer
	for _, file := range files {
		fmt.Fprintf(&sums, "%s  %s\n", checksum(file.Data), file.Name)
	}
	text, err := s.sign(sums.Bytes())
	if err != nil {
		return nil, fmt.Errorf("sign the checksums: %w", err)
	}
	return append(files, ociimage.File{Name: "SHA256SUMS", Mode: 0o644, Data: sums.Bytes()},
		ociimage.File{Name: "SHA256SUMS.sig", Mode: 0o644, Data: []byte(text + "\n")},
		ociimage.File{Name: "pinfold.pub", Mode: 0o644, Data: s.public}), nil
}
