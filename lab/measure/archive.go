package measure

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/lab/experiment"
	"pinfold.dev/pinfold/linux/owned"
	"pinfold.dev/pinfold/tracefile"
)

// Names of the files of a run.
const (
	resultFile = "result.jsonl"
	usageFile  = "usage.parquet"
)

// archive writes what a run has measured, as soon as it was measured.
type archive struct {
	file      *os.File
	lines     *experiment.Writer
	recording tracefile.Recorder
}

// newArchive makes the directory of a run, which must not exist.
func newArchive(dir string, c experiment.Config, e experiment.Environment) (*archive, error) {
	if err := owned.Make(filepath.Dir(dir), 0o755); err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the directory of the run: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(dir, resultFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	a := &archive{file: file}
	if a.lines, err = experiment.NewWriter(file, c, e); err == nil {
		output := tracefile.Output{Name: filepath.Join(dir, usageFile)}
		a.recording, err = tracefile.Record(output, tracefile.Header{Start: e.Started, Interval: recordEvery})
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return a, nil
}

// measured is what was measured in a window.
type measured struct {
	experiment.Window
	usage []trace.Series // of each service; times are since the start of the run
}

// add writes a window.
func (a *archive) add(w measured) error {
	for _, series := range w.usage {
		for _, sample := range series.Samples {
			if err := a.recording.Append(&tracefile.Row{Group: series.Group, Sample: sample}); err != nil {
				return fmt.Errorf("keep the usage: %w", err)
			}
		}
	}
	return a.lines.Window(w.Window)
}

// end completes the files. err is why the run ended early, nil if it is complete.
func (a *archive) end(explained []experiment.Explanation, err error) error {
	_, finished := a.recording.Finish()
	if errors.Is(finished, tracefile.ErrEmpty) {
		finished = nil
	}
	return errors.Join(err, a.lines.End(explained, err), finished, a.file.Close())
}

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
