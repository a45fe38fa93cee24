// Command krew makes what the plugin manager krew (krew.sigs.k8s.io) installs: an archive of
// "kubectl pinfold" for each platform, and the manifest with their checksums. "make krew" runs it:
//
//	krew -version v0.1.0 -url https://example.com/v0.1.0 -binaries bin/krew -out bin/krew
//
// The binaries are files OS_ARCH/kubectl-pinfold. The manifest is made from pinfold.yaml.tmpl. It
// prints the checksum and the size of each archive.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"

	"pinfold.dev/pinfold/internal/command"
	"pinfold.dev/pinfold/internal/ociimage"
)

//go:embed pinfold.yaml.tmpl
var manifest string

// homepage is shown by "kubectl krew info".
const homepage = "https://pinfold.dev/pinfold"

func main() { os.Exit(command.Main("krew", run)) }

// release is what the manifest is made of.
type release struct {
	Version, URL, Homepage string
	Archives               []archive
}

func run(_ context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("krew", flag.ContinueOnError)
	flags.SetOutput(stderr)
	r := release{Homepage: homepage}
	flags.StringVar(&r.Version, "version", "", "the release, such as v0.1.0")
	flags.StringVar(&r.URL, "url", "", "where the archives will be, without their names")
	binaries := flags.String("binaries", "", "directory of OS_ARCH/kubectl-pinfold")
	source := flags.String("source", ".", "directory of the repository")
	out := flags.String("out", "", "directory to write to")
	if err := command.Parse(flags, args); err != nil {
		return err
	}
	if err := r.check(); err != nil {
		return err
	}
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return err
	}
	for _, p := range platforms() {
		files := []ociimage.File{
			{Name: "LICENSE", Mode: 0o644},
			{Name: "kubectl-pinfold", Mode: 0o755},
			{Name: "kubectl_complete-pinfold", Mode: 0o755},
		}
		for i, path := range []string{
			filepath.Join(*source, "LICENSE"),
			filepath.Join(*binaries, p.String(), "kubectl-pinfold"),
			filepath.Join(*source, "deploy/krew/kubectl_complete-pinfold"),
		} {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			files[i].Data = data
		}
		made, err := writeArchive(*out, p, files)
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "%s  %s  %.1f MB\n", made.SHA256, made.Name, float64(made.Bytes)/1e6)
		r.Archives = append(r.Archives, made)
	}
	return r.writeManifest(filepath.Join(*out, "pinfold.yaml"))
}

var semantic = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

// check rejects what krew would reject, or what would end up in the wrong place.
func (r *release) check() error {
	if !semantic.MatchString(r.Version) {
		return fmt.Errorf("the version %q is not like v0.1.0: give VERSION", r.Version)
	}
	r.URL = strings.TrimSuffix(r.URL, "/")
	if parsed, err := url.Parse(r.URL); err != nil || parsed.Scheme == "" || parsed.Host == "" {
		return fmt.Errorf("the URL %q is not one of a directory: give URL, such as https://example.com/releases/v0.1.0", r.URL)
	}
	return nil
}

func (r *release) writeManifest(file string) (err error) {
	text, err := template.New("pinfold.yaml").Option("missingkey=error").Parse(manifest)
	if err != nil {
		return err
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(text.Execute(out, r), out.Close())
}
