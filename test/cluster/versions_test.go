package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pinfold.dev/pinfold/kube/versions"
	"pinfold.dev/pinfold/local/localcluster"
	"pinfold.dev/pinfold/test/need"
)

// TestVersions repeats what depends on the version of Kubernetes on control planes that emulate the
// other supported ones: admission, the plugin's interface to the scheduler, and claims, for which each
// version has feature gates of its own. The oldest one has none of them enabled, so that the driver
// says what is missing. PINFOLD_TEST_KUBERNETES=1.34 runs all tests of this package on one version
// instead.
func TestVersions(t *testing.T) {
	need.This(t, "local clusters")
	for _, version := range versions.Supported() {
		gates := claimGates(version)
		if version == versions.Oldest().String() {
			gates = nil
		}
		onVersion(t, version, gates, func(t *testing.T) {
			t.Run("TestClaims", func(t *testing.T) { testClaims(t, gates...) })
			if version == versions.Newest().String() {
				return // all tests of this package
			}
			t.Run("TestPreemption", func(t *testing.T) { begin(t).evictsForPriority() })
			t.Run("TestAdmission", TestAdmission)
			t.Run("TestRequests", TestRequests)
			t.Run("TestSchedulerLog", testSchedulerLog)
			if version == versions.Oldest().String() {
				t.Run("TestNoDefinition", testNoDefinition)
			}
		})
	}
}

// elsewhere is the cluster of [onVersion] while that runs tests.
var elsewhere *running

// onVersion runs tests on a control plane that emulates a version, with feature gates.
func onVersion(t *testing.T, version string, gates []string, test func(*testing.T)) {
	t.Run(version, func(t *testing.T) {
		r, err := launch(filepath.Join(t.TempDir(), "data"), version, gates...)
		if err == nil {
			err = r.await()
		}
		if err != nil {
			t.Fatal(err)
		}
		elsewhere = r
		defer func() {
			elsewhere = nil
			if err := r.stop(); err != nil {
				t.Error(err)
			}
		}()
		test(t)
	})
}

// testSchedulerLog checks that the scheduler asks for no API that its API server does not have.
func testSchedulerLog(t *testing.T) {
	c := begin(t)
	log, err := os.ReadFile(filepath.Join(c.dir, "logs", localcluster.Scheduler+".log"))
	c.must(err)
	runsAs := fmt.Sprintf(`"This scheduler runs as a version of Kubernetes" version=%q`, c.kubernetes())
	if !strings.Contains(string(log), runsAs) || strings.Contains(string(log), "could not find the requested resource") {
		t.Errorf("the log does not say %s, or asks for an API that is not there:\n%s", runsAs, log)
	}
}

// kubernetes returns the minor version that the cluster's control plane emulates.
func (r *running) kubernetes() string {
	state, err := localcluster.ReadState(r.dir)
	if err != nil {
		panic(err) // begin's cluster runs
	}
	return state.Kubernetes
}
