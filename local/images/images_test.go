package images

import (
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pinfold.dev/pinfold/deploy"
)

// TestEveryExampleHasItsImage checks that each image of the example manifests is in the list.
func TestEveryExampleHasItsImage(t *testing.T) {
	var names []string
	for _, image := range All() {
		names = append(names, image.Name)
	}
	wanted := regexp.MustCompile(`image: (\S+)`)
	found := 0
	err := fs.WalkDir(deploy.Examples(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(deploy.Examples(), path)
		if err != nil {
			return err
		}
		for _, match := range wanted.FindAllStringSubmatch(string(text), -1) {
			found++
			if !slices.Contains(names, full(match[1])) {
				t.Errorf("%s uses %s, which is not in the list", path, full(match[1]))
			}
		}
		return nil
	})
	if err != nil || found == 0 {
		t.Errorf("%d images in the examples (%v)", found, err)
	}
}

// full completes the name of an image as container runtimes do.
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

// TestEveryProgramIsHere checks that the programs of all images exist.
func TestEveryProgramIsHere(t *testing.T) {
	for _, image := range All() {
		if !slices.Contains(Programs(), image.Program) {
			t.Errorf("%s uses program %s, which is not built", image.Name, image.Program)
		}
	}
	for _, program := range Programs() {
		if _, err := os.Stat(program + "/main.go"); err != nil {
			t.Error(err)
		}
	}
}
