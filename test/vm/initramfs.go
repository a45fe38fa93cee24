package vm

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/cavaliergopher/cpio"

	"pinfold.dev/pinfold/test/vm/guest"
)

// writeInitramfs writes a root file system with /init, the other binaries in /bin, and the
// configuration. It is not compressed, because decompression would be slow in the emulator.
func writeInitramfs(name, init string, binaries []string, config guest.Config) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	text, err := json.Marshal(config)
	if err != nil {
		return err
	}
	w := cpio.NewWriter(f)
	for _, h := range []*cpio.Header{
		{Name: "dev", Mode: cpio.TypeDir | 0o755}, {Name: "bin", Mode: cpio.TypeDir | 0o755},
	} {
		if err := w.WriteHeader(h); err != nil {
			return err
		}
	}
	if err := addFile(w, guest.ConfigFile[1:], 0o600, text); err != nil {
		return err
	}
	for _, binary := range slices.Concat([]string{init}, binaries) {
		to := "bin/" + filepath.Base(binary)
		if binary == init {
			to = "init"
		}
		content, err := os.ReadFile(binary)
		if err != nil {
			return err
		}
		if err := addFile(w, to, 0o755, content); err != nil {
			return fmt.Errorf("add %s: %w", binary, err)
		}
	}
	return w.Close()
}

func addFile(w *cpio.Writer, name string, mode cpio.FileMode, content []byte) error {
	h := &cpio.Header{Name: name, Mode: cpio.TypeReg | mode, Size: int64(len(content))}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err := w.Write(content)
	return err
}
