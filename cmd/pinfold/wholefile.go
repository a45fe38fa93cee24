package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"pinfold.dev/pinfold/internal/atomicfile"
)

// writeWhole writes a file that appears whole or not at all. Without replace a name that is
// taken is an error (fs.ErrExist).
func writeWhole(name string, content []byte, replace bool) error {
	err := atomicfile.Write(name, content, atomicfile.Options{Perm: 0o644, KeepOld: !replace, Sync: true})
	var unnamed *os.LinkError
	switch {
	case err == nil, errors.Is(err, fs.ErrExist):
		return err
	case errors.As(err, &unnamed):
		return fmt.Errorf("write %s: %w: choose a name in another folder", name, err)
	}
	return fmt.Errorf("write %s: %w", name, err)
}
