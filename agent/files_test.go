package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/test/must"
)

// A changed file of ceilings has effect on running pods without a restart.
func TestChangedCeilings(t *testing.T) {
	k := newTree(t)
	pod := newPod("web", "")
	run(pod, containerID('a'))
	pod.Annotations = map[string]string{api.CPUPeriodAnnotation: "10ms"}
	w := newWorld(t, pod)
	w.root = k.root
	file := filepath.Join(t.TempDir(), "ceilings.yaml")
	write := func(text string) { must.Do(t, os.WriteFile(file, []byte(text), 0o600)) }
	write("{}")
	w.more = func(o *Options) {
		o.FilesEvery = 10 * time.Millisecond
		must.Do(t, o.ReadCeilings("--ceilings", file))
	}
	group := k.pod("web", containerID('a'))
	w.start()
	hasPeriod := func(want time.Duration) {
		t.Helper()
		w.eventually(func() error {
			if s, err := k.fs.Read(group); err != nil || s.Period != want {
				return fmt.Errorf("limits %+v, want a period of %v (%w)", s.Limits, want, err)
			}
			return nil
		})
	}
	hasPeriod(10 * time.Millisecond)
	write("default: {period: {min: 50ms}}")
	hasPeriod(50 * time.Millisecond)
	write("") // emptied by accident: nothing changes
	w.eventually(func() error {
		if c := w.condition(); c.Reason != control.FileRefused {
			return fmt.Errorf("condition %+v", c)
		}
		return nil
	})
	hasPeriod(50 * time.Millisecond)
	write("{}")
	hasPeriod(10 * time.Millisecond)
}
