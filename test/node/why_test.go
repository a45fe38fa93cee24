package node

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// testWhy lets a container use up its quota, or that of its pod, which is the same: "pinfold why" says so.
func (s *settled) testWhy(t *testing.T) {
	group := s.kernel.containerGroup(s.pods["limited"], "main")
	end := s.kernel.spin(t, group)
	defer end()
	output, err := exec.CommandContext(t.Context(), filepath.Join(programs, "pinfold"), "why", group, "--duration", "2s", "-o", "json").CombinedOutput()
	if err != nil && strings.Contains(string(output), "cannot trace the scheduler") {
		t.Logf("%s", output) // a kernel without type information
		return
	}
	var report struct {
		Containers []struct {
			Name      string
			Limit     float64 `json:"limitCPUs"`
			Throttled int     `json:"throttledPeriods"`
		}
	}
	if err != nil || json.Unmarshal(output, &report) != nil || len(report.Containers) != 1 {
		t.Fatalf("%v\n%s", err, output)
	}
	if c := report.Containers[0]; c.Name != "default/limited/main" || c.Limit != 0.5 || c.Throttled < 5 {
		t.Errorf("%s", output)
	}
}
