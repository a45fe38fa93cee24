package cluster

import (
	"fmt"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// TestUpgrade: the API server of a scheduler has another version. The scheduler releases its lease
// and ends, and the next one runs as the new version. A running scheduler continues with an API
// server that is too new, and one that starts reports an error, unless a flag sets its version.
func TestUpgrade(t *testing.T) {
	c := begin(t)
	minor, kubeconfig := c.versionProxy()
	const lease = "upgraded-scheduler"
	configuration := c.ownConfiguration("{leaderElect: true, resourceName: "+lease+"}", "{kubeconfig: "+kubeconfig+"}")
	runsAs := func(version string) string { return `runs as a version of Kubernetes" version="` + version + `"` }
	leader := func() string {
		got, err := c.client.CoordinationV1().Leases("kube-system").Get(c.Context(), lease, metav1.GetOptions{})
		if err != nil || got.Spec.HolderIdentity == nil {
			return ""
		}
		return *got.Spec.HolderIdentity
	}

	minor.Store(35)
	s := c.startScheduler(configuration)
	s.awaitLog(runsAs("1.35"))
	s.awaitLog("uccessfully acquired lease")
	c.create(ownPod("before", small0, 2))
	c.allocation(c.bound("before"))
	minor.Store(36)
	s.awaitLog("so that it is started again as the version of its API server")
	s.ends()
	if got := s.command.ProcessState.ExitCode(); got != 0 || leader() != "" {
		t.Errorf("exit status %d, and %q has the lease", got, leader())
	}
	s = c.startScheduler(configuration)
	s.awaitLog(runsAs("1.36"))
	c.create(ownPod("after", small0, 2))
	c.allocation(c.bound("after"))

	minor.Store(uint64(versions.Newest().Minor()) + 1)
	s.awaitLog("This scheduler continues, but could not be started again")
	c.create(ownPod("later", small0, 2))
	c.allocation(c.bound("later"))
	refused := c.startScheduler(configuration)
	refused.ends()
	if log := refused.log.String(); refused.command.ProcessState.ExitCode() != 1 || !strings.Contains(log, strings.Join(versions.Supported(), ", ")) {
		t.Errorf("with an API server that is too new: %v\n%s", refused.command.ProcessState, log)
	}
	c.must(s.command.Process.Kill())
	s.ends()
	remedy := "--emulated-version=" + versions.Newest().String()
	if log := refused.log.String(); !strings.Contains(log, remedy) {
		t.Fatalf("the error does not name %s:\n%s", remedy, log)
	}
	s = c.startScheduler(configuration, remedy)
	s.awaitLog(runsAs(versions.Newest().String()))
	c.must(c.podAPI().Delete(c.Context(), "later", *metav1.NewDeleteOptions(0)))
	c.create(ownPod("last", small0, 2))
	c.allocation(c.bound("last"))
	c.checkBooks()
}

// versionProxy starts a proxy before the API server, which says that this is of the returned minor
// version. The proxy's clients have the rights of the scheduler.
func (c *test) versionProxy() (minor *atomic.Uint64, kubeconfig string) {
	c.Helper()
	minor = new(atomic.Uint64)
	return minor, c.startProxy(func(server *httputil.ReverseProxy) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/version" {
				fmt.Fprintf(w, `{"major":"1","minor":"%d+","gitVersion":"v1.%[1]d.2-provider.1"}`, minor.Load())
				return
			}
			server.ServeHTTP(w, r)
		})
	})
}
