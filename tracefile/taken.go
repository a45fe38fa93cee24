package tracefile

import (
	"fmt"
	"io/fs"
	"os"
)

// Taken returns an error if the name of an output is taken and may not be replaced.
func Taken(name string, replace bool) error {
	if name == Stdout || replace {
		return nil
	}
	if _, err := os.Lstat(name); err == nil {
		return fmt.Errorf("%s: %w", name, fs.ErrExist)
	}
	return nil
}
