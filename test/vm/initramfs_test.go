package vm

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/cavaliergopher/cpio"
	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/vm/guest"
)

func TestInitramfs(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"first", "second.test"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte("binary "+name), 0o600))
	}
	archive := filepath.Join(dir, "initramfs")
	err := writeInitramfs(archive, filepath.Join(dir, "first"), []string{filepath.Join(dir, "second.test")},
		guest.Config{Offline: cpuset.Of(3)})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"dev": "040755 ", "bin": "040755 ",
		"init": "0100755 binary first", "bin/second.test": "0100755 binary second.test",
		"guest.json": `0100600 {"offline":"3","programs":null}`,
	}
	if diff := cmp.Diff(want, unpacked(t, archive)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if err := writeInitramfs(archive, filepath.Join(dir, "missing"), nil, guest.Config{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a binary: %v", err)
	}
}

// unpacked returns the mode and content of the files by name.
func unpacked(t *testing.T, archive string) map[string]string {
	t.Helper()
	f := must.Get(os.Open(archive))(t)
	defer f.Close()
	files := map[string]string{}
	for r := cpio.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content := must.Get(io.ReadAll(r))(t)
		files[h.Name] = fmt.Sprintf("%#o %s", uint32(h.Mode), content)
	}
}
