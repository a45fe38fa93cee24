package pods

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"pinfold.dev/pinfold/internal/ociimage"
	"pinfold.dev/pinfold/lab/programs"
)

// repository is where the images of experiments are.
const repository = "pinfold.dev/lab/"

// ImageOf returns the name of the image of a real program.
func ImageOf(p programs.Program) (string, error) {
	id, err := p.ID()
	return nameOf(id), err
}

// nameOf returns the name of the image of the program with an ID.
func nameOf(id string) string { return repository + id + ":1" }

// builtIn is the path of the program with all built-in programs in its image.
const builtIn = "bin/pinfold-lab"

// BuiltIn returns the name of the image of this program, which contains all built-in programs.
func BuiltIn() (string, error) {
	data, err := executable()
	if err != nil {
		return "", err
	}
	digest := sha256.Sum256(data)
	return repository + "built-in:" + hex.EncodeToString(digest[:8]), nil
}

// executable returns this program. It returns an error if the program needs libraries, which no
// image has.
func executable() ([]byte, error) {
	data, err := os.ReadFile("/proc/self/exe") // also if the file was replaced since the start
	if err != nil {
		return nil, fmt.Errorf("read this program: %w", err)
	}
	program, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("read this program: %w", err)
	}
	if slices.ContainsFunc(program.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return nil, errors.New("this program is linked dynamically, and cannot run in an image: build it with 'make bin/pinfold-lab'")
	}
	return data, nil
}

// WriteImages writes the images of this program and of real programs to an OCI image layout, and
// returns their names.
func WriteImages(dir string, real []programs.Program) (names []string, err error) {
	data, err := executable()
	if err != nil {
		return nil, err
	}
	name, err := BuiltIn()
	if err != nil {
		return nil, err
	}
	image, err := ociimage.Build(ociimage.Spec{
		Architecture: runtime.GOARCH, Dirs: []string{"tmp"},
		Files:  []ociimage.File{{Name: builtIn, Mode: 0o755, Data: data}},
		Config: v1.Config{Entrypoint: []string{"/" + builtIn}, WorkingDir: "/"},
	})
	if err != nil {
		return nil, err
	}
	all := []ociimage.Named{{Name: name, Content: image}}
	for _, p := range real {
		id, image, err := p.Image()
		if err != nil {
			return nil, err
		}
		all = append(all, ociimage.Named{Name: nameOf(id), Content: image})
	}
	for _, one := range all {
		names = append(names, one.Name)
	}
	return names, ociimage.WriteLayout(dir, all)
}
