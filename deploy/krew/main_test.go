package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/test/must"
)

// release makes a release of stand-ins for the binaries, and returns its directory and what was
// printed.
func makeRelease(t *testing.T, args ...string) (dir, printed string, err error) {
	t.Helper()
	dir = t.TempDir()
	for _, p := range platforms() {
		file := filepath.Join(dir, p.String(), "kubectl-pinfold")
		for _, err := range []error{os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte("for "+p.String()), 0o600)} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	var stdout, stderr strings.Builder
	err = run(t.Context(), append([]string{"-source", "../..", "-binaries", dir, "-out", filepath.Join(dir, "out")}, args...), &stdout, &stderr)
	return filepath.Join(dir, "out"), stdout.String(), err
}

// TestRelease reads a release back. It is the same each time.
func TestRelease(t *testing.T) {
	dir, sums, err := makeRelease(t, "-version", "v1.2.3-rc.1", "-url", "https://example.com/v1.2.3-rc.1/")
	if err != nil {
		t.Fatal(err)
	}
	if _, again, err := makeRelease(t, "-version", "v1.2.3-rc.1", "-url", "https://example.com/v1.2.3-rc.1/"); err != nil || again != sums {
		t.Errorf("checksums differ: %v\n%s%s", err, sums, again)
	}
	text := must.Get(os.ReadFile(filepath.Join(dir, "pinfold.yaml")))(t)
	var plugin struct {
		Spec struct {
			Version   string
			Platforms []struct {
				URI, SHA256 string
				Selector    struct{ MatchLabels platform }
			}
		}
	}
	if err := yaml.Unmarshal(text, &plugin); err != nil || plugin.Spec.Version != "v1.2.3-rc.1" || len(plugin.Spec.Platforms) != 4 {
		t.Fatalf("%v: %+v in\n%s", err, plugin, text)
	}
	for i, p := range platforms() {
		has := plugin.Spec.Platforms[i]
		name := "pinfold_" + p.String() + ".tar.gz"
		if has.Selector.MatchLabels != p || has.URI != "https://example.com/v1.2.3-rc.1/"+name || !strings.Contains(sums, has.SHA256+"  "+name) {
			t.Errorf("platform %s is %+v; the checksums are\n%s", p, has, sums)
		}
		if got, want := filesIn(t, filepath.Join(dir, name)), "LICENSE 644, kubectl-pinfold 755 for "+p.String()+", kubectl_complete-pinfold 755"; got != want {
			t.Errorf("%s contains %s, want %s", name, got, want)
		}
	}
}

// filesIn lists the files of an archive, with the content of the binary.
func filesIn(t *testing.T, file string) string {
	t.Helper()
	opened := must.Get(os.Open(file))(t)
	defer opened.Close()
	zipped := must.Get(gzip.NewReader(opened))(t)
	var all []string
	for archive := tar.NewReader(zipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return strings.Join(all, ", ")
		}
		if err != nil {
			t.Fatal(err)
		}
		text := header.Name + " " + header.FileInfo().Mode().Perm().String()
		text = strings.NewReplacer("-rwxr-xr-x", "755", "-rw-r--r--", "644").Replace(text)
		if header.Name == "kubectl-pinfold" {
			data := must.Get(io.ReadAll(archive))(t)
			text += " " + string(data)
		}
		all = append(all, text)
	}
}

func TestWrongReleases(t *testing.T) {
	for want, args := range map[string][]string{
		`the version "" is not like v0.1.0: give VERSION`:        {"-url", "https://example.com"},
		`the version "1.2" is not like v0.1.0`:                   {"-version", "1.2", "-url", "https://example.com"},
		`the URL "" is not one of a directory: give URL`:         {"-version", "v1.2.3"},
		`the URL "releases" is not one of a directory`:           {"-version", "v1.2.3", "-url", "releases"},
		`linux_amd64/kubectl-pinfold: no such file or directory`: {"-version", "v1.2.3", "-url", "https://example.com", "-binaries", t.TempDir()},
	} {
		if _, _, err := makeRelease(t, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %s", args, err, want)
		}
	}
}
