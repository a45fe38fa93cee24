package nodetopology

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"pinfold.dev/pinfold/linux/sysfs"
	"pinfold.dev/pinfold/test/must"
)

// machinesEnv names a folder of captured machines, NAME.tar.gz with a sys directory in each.
const machinesEnv = "PINFOLD_TEST_MACHINES"

func TestCapturedMachinesRoundTrip(t *testing.T) {
	dir := os.Getenv(machinesEnv)
	if dir == "" {
		t.Skipf("%s is not set: name a folder of captured machines in it to run this test", machinesEnv)
	}
	archives, err := filepath.Glob(filepath.Join(dir, "*.tar.gz"))
	if err != nil || len(archives) == 0 {
		t.Fatalf("%s: no captured machines (*.tar.gz), error %v", dir, err)
	}
	for _, archive := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(archive), ".tar.gz"), func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			if out, err := exec.Command("tar", "-xzf", archive, "-C", root).CombinedOutput(); err != nil {
				t.Fatalf("unpack %s: %v\n%s", archive, err, out)
			}
			m := must.Get(sysfs.Read(os.DirFS(filepath.Join(root, "sys"))))(t)
			m.LLCBytes = nil // objects do not have it
			obj := encode(t, m, someState)
			got, state, err := ToMachine(throughJSON(t, obj))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(m, got, cmpopts.EquateEmpty(), cmp.Comparer(cpusEqual)); diff != "" || state != someState {
				t.Errorf("state %+v, machine (-want +got):\n%s", state, diff)
			}
		})
	}
}
