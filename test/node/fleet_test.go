package node

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
)

// TestDemoFleet runs a dozen services on this machine with a real Prometheus, and checks that the agents'
// histograms decide about each limit, and what is seen of it.
func TestDemoFleet(t *testing.T) {
	requireNode(t)
	for _, name := range []string{"prometheus-server", "pinfold"} {
		must.Get(need.Program(name))(t)
	}
	page := filepath.Join(t.TempDir(), "fleet.html")
	text, err := exec.CommandContext(t.Context(), program(t, "pinfold-local"), "demo-fleet", "--duration", "3m", "--html", page,
		"--node-binaries", must.Get(filepath.Abs(binaries))(t), "--cgroup-driver", naming().Driver.String()).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	t.Logf("%s", text)
	const services = 12
	judged, _, _ := strings.Cut(string(text), "why --cluster")
	if n := strings.Count(judged, "default/"); n != services || strings.Contains(judged, "unknown  ") {
		t.Errorf("%d rows of %d services, or some without a verdict", n, services)
	}
	for _, want := range []string{"VERDICT", "default/checkout", "raise", "WAITS"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q", want)
		}
	}
	if html := string(must.Get(os.ReadFile(page))(t)); !strings.Contains(html, "checkout") {
		t.Error("the page has no row of checkout")
	}
}
