package images

import (
	"io/fs"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"

	"pinfold.dev/pinfold/deploy"
	"pinfold.dev/pinfold/test/must"
)

// TestEveryExampleHasItsImage checks that each image of the example manifests is in the list.
func TestEveryExampleHasItsImage(t *testing.T) {
	full := func(image string) string { return must.Get(name.ParseReference(image))(t).Name() }
	var names []string
	for _, image := range All() {
		names = append(names, full(image.Name))
	}
	wanted, found := regexp.MustCompile(`image: (\S+)`), 0
	must.Do(t, fs.WalkDir(deploy.Examples(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(deploy.Examples(), path)
		for _, match := range wanted.FindAllStringSubmatch(string(text), -1) {
			found++
			if !slices.Contains(names, full(match[1])) {
				t.Errorf("%s uses %s, which is not in the list", path, match[1])
			}
		}
		return err
	}))
	if found == 0 {
		t.Error("the examples have no images")
	}
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
