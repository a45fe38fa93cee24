package node

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/core/experiment"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/lab/measure"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/test/busy"
	"pinfold.dev/pinfold/test/must"
)

// labConfig is an experiment of a few seconds with each way in which a pod gets its settings.
const labConfig = `
version: 1
name: pods
question: Do pods have the settings of their condition?
rounds: 1
window: 500ms
foreign: 100%
quick: {rounds: 1, window: 500ms}
services:
- {name: server, program: web, request: {cpu: 5ms}}
- {name: batch, program: batch, stopped: true}
loads:
- {name: batches, client: batches, batch: 8, every: 103ms}
conditions:
- {name: alone}
- {name: limit, services: {server: {limit: 10%, period: 50ms}}}
- {name: burst, services: {server: {limit: 50%, burst: 100%}}}
- {name: nginx, services: {server: {program: nginx, request: {hash: 100000}, limit: 50%}}}
- {name: httpd, services: {server: {program: httpd, limit: 50%, burst: 100%}}}
- {name: static, services: {server: {limit: 1, policy: static}}}
- {name: idle, services: {batch: {stopped: false, priority: idle}}}
- {name: budget, services: {batch: {stopped: false, budget: 50%}}}
figures: [p99, throttled, others]
answers: [{figure: throttled, condition: limit}]
`

// TestLab runs an experiment as pods of the node. Nothing is left of it, also if it is interrupted,
// and the next run removes what a killed one has left.
func TestLab(t *testing.T) {
	requireNode(t)
	lab := program(t, "pinfold-lab")
	images, config := filepath.Join(t.TempDir(), "images"), filepath.Join(t.TempDir(), "pods.yaml")
	if text, err := exec.Command(lab, "images", "-o", images).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	must.Do(t, os.WriteFile(config, []byte(labConfig), 0o600))
	// Other tests may measure at the same time, which one directory for temporary files permits
	// once. The workers of Apache are another user.
	own, err := os.MkdirTemp("", "pinfold-lab-test-")
	if err == nil {
		err = os.Chmod(own, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(own) }) // of temporary files
	here, err := os.Getwd()
	if err == nil {
		images, err = filepath.Rel(here, images) // as in docs/lab.md
	}
	if err != nil {
		t.Fatal(err)
	}
	c := startWith(t, "--images", images, "--agent-flag=--batch-priority=idle")
	defer c.down(t)
	run := func(ctx context.Context, args ...string) *exec.Cmd {
		args = append([]string{"run", "--config", config, "--on", "cluster", "--kubeconfig", filepath.Join(c.dir, "kubeconfig")}, args...)
		command := exec.CommandContext(ctx, lab, args...)
		command.Env, command.WaitDelay = append(os.Environ(), "TMPDIR="+own), requestTimeout
		return command
	}
	for _, signal := range []os.Signal{os.Interrupt, os.Kill} {
		ctx, cancel := context.WithCancel(t.Context())
		output := t.TempDir()
		command := run(ctx, "-o", output, "--repetitions", "1000")
		command.Cancel = func() error { return command.Process.Signal(signal) }
		ended := make(chan string, 1)
		go func() { text, err := command.CombinedOutput(); ended <- fmt.Sprintf("%s\n%v", text, err) }()
		for windowsIn(output) == 0 || c.labPods(t) == 0 {
			select {
			case text := <-ended:
				t.Fatalf("the run has ended: %s", text)
			case <-time.After(100 * time.Millisecond):
			}
		}
		cancel()
		<-ended
		if n := c.labPods(t); n > 0 && signal == os.Interrupt {
			t.Errorf("%d pods are left after an interrupt", n)
		}
	}
	busy.Repeat(t, 3, func() string {
		output := t.TempDir()
		ctx, stop := context.WithCancel(t.Context())
		var seen map[string]bool
		var blind time.Duration
		var watching sync.WaitGroup
		watching.Go(func() { seen, blind = settingsSeen(ctx) })
		text, err := run(t.Context(), "-o", output).CombinedOutput()
		stop()
		watching.Wait()
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if blind > 400*time.Millisecond { // of the 500 that a setting lasts
			return fmt.Sprintf("the test itself did not run for %v", blind)
		}
		for _, want := range []string{"quota 10%, period 50ms, burst 0s", "quota 50%, period 100ms, burst 100ms", "quota 50%, period 100ms, burst 0s", "one CPU, no quota", "idle"} {
			if !seen[want] {
				t.Errorf("no pod had the settings %q: %v", want, seen)
			}
		}
		if n := c.labPods(t); n > 0 {
			t.Errorf("%d pods are left", n)
		}
		checkLab(t, output)
		return ""
	})
}

// windowsIn returns how many windows runs in a directory have measured.
func windowsIn(output string) int {
	dirs, err := measure.Find([]string{output})
	if err != nil {
		return 0
	}
	windows := 0
	for _, dir := range dirs {
		result, _, _ := measure.Open(dir) // incomplete while it is written
		windows += len(result.Windows)
	}
	return windows
}

// settingsSeen reads the settings of all containers from the kernel until ctx ends. It returns those
// that it has seen, and the longest time between two looks. Groups come and go meanwhile.
func settingsSeen(ctx context.Context) (seen map[string]bool, blind time.Duration) {
	seen = map[string]bool{}
	groups, err := cgroup.Open("/")
	if err != nil {
		return seen, 0
	}
	for last := time.Now(); ; {
		if !sleep.For(ctx, 50*time.Millisecond) {
			return seen, blind
		}
		now := time.Now()
		blind, last = max(blind, now.Sub(last)), now
		all, _ := naming().Pods(groups)
		for _, pod := range all {
			if s, err := groups.ReadParts(pod.Path, cgroup.Parts{Idle: true}); err == nil && s.Idle {
				seen["idle"] = true
			}
			for _, container := range pod.Containers {
				s, err := groups.ReadParts(container.Path, cgroup.Parts{Bandwidth: true, Effective: true})
				switch cpus, limited := s.Limits.CPUs(); {
				case err != nil:
				case limited:
					seen[fmt.Sprintf("quota %.0f%%, period %v, burst %v", 100*cpus/float64(runtime.NumCPU()), s.Period, s.Burst*2/time.Duration(runtime.NumCPU()))] = true
				case s.Effective.Len() == 1:
					seen["one CPU, no quota"] = true
				}
			}
		}
	}
}

// labPods returns how many pods of experiments there are.
func (c *cluster) labPods(t *testing.T) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), requestTimeout)
	defer cancel()
	list := must.Get(c.client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{LabelSelector: "pinfold.dev/lab"}))(t)
	return len(list.Items)
}

// checkLab checks what the experiment has measured.
func checkLab(t *testing.T, output string) {
	t.Helper()
	dirs, err := measure.Find([]string{output})
	if err != nil || len(dirs) != 1 {
		t.Fatalf("%v, error %v, want one run", dirs, err)
	}
	result, usage, err := measure.Open(dirs[0])
	if err != nil || !result.Complete || result.Environment.Place != experiment.Cluster || usage == nil {
		t.Fatalf("%+v, error %v", result, err)
	}
	if notes := fmt.Sprint(result.Config.Notes); !strings.Contains(notes, `The condition "budget" was left out`) {
		t.Errorf("notes %s, want that a condition was left out", notes)
	}
	t.Logf("programs %v", result.Environment.Programs)
	measured := map[string]bool{} // some twice, if they were disturbed
	for _, w := range result.Windows {
		f := w.Figures
		measured[w.Condition] = true
		t.Logf("%s: %v", w.Condition, f)
		if f[experiment.Calls] == 0 || f[experiment.Used] <= 0 || w.Latencies == nil || w.To-w.From < 500*time.Millisecond {
			t.Errorf("%s: wrong figures", w.Condition)
		}
		// On a busy machine idle work may get nothing, and requests that had to wait may use up a
		// quota.
		if f[experiment.Throttled] == 0 && w.Condition == "limit" || f[experiment.Throttled] > 0 && w.Condition == "alone" || f[experiment.Others] > 0 && w.Condition != "idle" {
			t.Errorf("%s: throttled %g, batch work used %g", w.Condition, f[experiment.Throttled], f[experiment.Others])
		}
	}
	if len(measured) != 7 {
		t.Errorf("windows of the conditions %v, want 7", measured)
	}
}
