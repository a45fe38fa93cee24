package measure

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/lab/experiment"
)

//go:embed configs/*.yaml
var configs embed.FS

// Names returns the names of all experiments, in alphabetical order.
func Names() []string {
	files, err := fs.Glob(configs, "configs/*.yaml")
	if err != nil {
		panic(err) // the pattern is wrong
	}
	for i, file := range files {
		files[i] = strings.TrimSuffix(strings.TrimPrefix(file, "configs/"), ".yaml")
	}
	return files
}

// Named returns the experiment with a name.
func Named(name string) (experiment.Config, error) {
	data, err := configs.ReadFile("configs/" + name + ".yaml")
	if err != nil {
		return experiment.Config{}, fmt.Errorf("no such experiment: %q: there are %s", name, strings.Join(Names(), ", "))
	}
	return parse(name, data)
}

// Load reads an experiment from a file.
func Load(file string) (experiment.Config, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return experiment.Config{}, err
	}
	return parse(file, data)
}

func parse(name string, data []byte) (c experiment.Config, err error) {
	if err := api.DecodeYAML(data, &c); err != nil {
		return c, fmt.Errorf("%s: %w", name, err)
	}
	if err := c.Check(); err != nil {
		return c, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}
