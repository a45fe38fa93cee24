package images

import (
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pinfold.dev/pinfold/deploy/examples"
)

// TestEveryExampleHasItsImage compares the list with the manifests.
func TestEveryExampleHasItsImage(t *testing.T) {
	var names []string
	for _, image := range All() {
		names = append(names, image.Name)
	}
	wanted := regexp.MustCompile(`image: (\S+)`)
	found := 0
	err := fs.WalkDir(examples.Files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(examples.Files, path)
		if err != nil {
			return err
		}
		for _, match := range wanted.FindAllStringSubmatch(string(text), -1) {
			found++
			if !slices.Contains(names, full(match[1])) {
				t.Errorf("%s wants %s, of which there is no image", path, full(match[1]))
			}
		}
		return nil
	})
	if err != nil || found == 0 {
		t.Errorf("%d images in the examples (%v)", found, err)
	}
}

// full completes a name as container runtimes do.
func full(name string) string {
	host, _, _ := strings.Cut(name, "/")
	switch {
	case host == name:
		name = "docker.io/library/" + name
	case !strings.Contains(host, "."):
		name = "docker.io/" + name
	}
	if !strings.Contains(name[strings.LastIndex(name, "/"):], ":") {
		name += ":latest"
	}
	return name
}

// TestEveryProgramIsHere compares the programs with the folders.
func TestEveryProgramIsHere(t *testing.T) {
	for _, image := range All() {
		if !slices.Contains(Programs(), image.Program) {
			t.Errorf("%s is made of %s, which is not built", image.Name, image.Program)
		}
	}
	for _, program := range Programs() {
		if _, err := os.Stat(program + "/main.go"); err != nil {
			t.Error(err)
		}
	}
}
