package measure

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"pinfold.dev/pinfold/core/experiment"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/tracefile"
)

// Open reads a run. usage is nil if no recording of it was kept.
func Open(dir string) (result experiment.Result, usage *trace.Recording, err error) {
	name := filepath.Join(dir, resultFile)
	file, err := os.Open(name)
	if err != nil {
		return result, nil, err
	}
	defer file.Close()
	if result, err = experiment.Read(file); err != nil {
		return result, nil, fmt.Errorf("%s, which pinfold-lab run has not written: %w", name, err)
	}
	usage, _, err = tracefile.Read(filepath.Join(dir, usageFile), 0)
	if errors.Is(err, fs.ErrNotExist) {
		return result, nil, nil
	}
	return result, usage, err
}

// Find returns the directories of runs among dirs and their entries.
func Find(dirs []string) (runs []string, err error) {
	for _, dir := range dirs {
		found, err := filepath.Glob(filepath.Join(dir, "*", resultFile))
		if err != nil {
			return nil, err
		}
		if _, err := os.Stat(filepath.Join(dir, resultFile)); err == nil {
			found = append(found, filepath.Join(dir, resultFile))
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("%s has no %s: give a directory that pinfold-lab run has written", dir, resultFile)
		}
		for _, file := range found {
			runs = append(runs, filepath.Dir(file))
		}
	}
	return runs, nil
}
