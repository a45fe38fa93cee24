package inside

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/vm/guest"
)

// TestShow prints files of the machine.
func TestShow(t *testing.T) {
	pattern := os.Getenv(guest.ShowEnv)
	if pattern == "" {
		t.Skip("prints files of a virtual machine: run only by test/vm")
	}
	for _, file := range must.Get(filepath.Glob(pattern))(t) {
		fmt.Printf("\n%s %s %s\n", guest.Shown, file, base64.StdEncoding.EncodeToString(must.Get(os.ReadFile(file))(t)))
	}
}
