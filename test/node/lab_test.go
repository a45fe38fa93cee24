package node

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	core "pinfold.dev/pinfold/core/experiment"
	"pinfold.dev/pinfold/lab/experiment"
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
	prepare(t)
	lab := filepath.Join(programs, "pinfold-lab")
	if _, err := os.Stat(lab); err != nil {
		t.Skipf("needs pinfold-lab, which virtual machines do not have: %v", err)
	}
	images, config := filepath.Join(t.TempDir(), "images"), filepath.Join(t.TempDir(), "pods.yaml")
	if text, err := exec.Command(lab, "images", "-o", images).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if err := os.WriteFile(config, []byte(labConfig), 0o600); err != nil {
		t.Fatal(err)
	}
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
	c := startWith(t, "--images", images, "--agent-flag=--batch-priority=idle")
	defer c.down(t)
	run := func(ctx context.Context, args ...string) *exec.Cmd {
		args = append([]string{"run", "--config", config, "--on", "cluster", "--kubeconfig", filepath.Join(c.dir, "kubeconfig")}, args...)
		command := exec.CommandContext(ctx, lab, args...)
		command.Env = append(os.Environ(), "TMPDIR="+own)
		return command
	}
	for _, signal := range []os.Signal{os.Interrupt, os.Kill} {
		ctx, cancel := context.WithCancel(t.Context())
		command := run(ctx, "-o", t.TempDir(), "--repetitions", "1000")
		command.Cancel = func() error { return command.Process.Signal(signal) }
		ended := make(chan string, 1)
		go func() { text, err := command.CombinedOutput(); ended <- fmt.Sprintf("%s\n%v", text, err) }()
		for c.labPods(t) == 0 {
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
	output := t.TempDir()
	if text, err := run(t.Context(), "-o", output).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if n := c.labPods(t); n > 0 {
		t.Errorf("%d pods are left", n)
	}
	checkLab(t, output)
}

// labPods returns how many pods of experiments there are.
func (c *cluster) labPods(t *testing.T) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	list, err := c.client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{LabelSelector: "pinfold.dev/lab"})
	if err != nil {
		t.Fatal(err)
	}
	return len(list.Items)
}

// checkLab checks what the experiment has measured.
func checkLab(t *testing.T, output string) {
	t.Helper()
	dirs, err := experiment.Find([]string{output})
	if err != nil || len(dirs) != 1 {
		t.Fatalf("%v, error %v, want one run", dirs, err)
	}
	result, usage, err := experiment.Open(dirs[0])
	if err != nil || !result.Complete || result.Environment.Place != core.Cluster || usage == nil {
		t.Fatalf("%+v, error %v", result, err)
	}
	if notes := fmt.Sprint(result.Config.Notes); !strings.Contains(notes, `The condition "budget" was left out`) {
		t.Errorf("notes %s, want that a condition was left out", notes)
	}
	t.Logf("programs %v", result.Environment.Programs)
	if len(result.Windows) != 7 {
		t.Errorf("%d windows, want 7", len(result.Windows))
	}
	for _, w := range result.Windows {
		f := w.Figures
		t.Logf("%s: %v", w.Condition, f)
		if f[core.Calls] == 0 || f[core.Used] <= 0 || w.Latencies == nil || w.To-w.From < 500*time.Millisecond {
			t.Errorf("%s: wrong figures", w.Condition)
		}
		if (f[core.Throttled] > 0) != (w.Condition == "limit") || (f[core.Others] > 0) != (w.Condition == "idle") {
			t.Errorf("%s: throttled %g, batch work used %g", w.Condition, f[core.Throttled], f[core.Others])
		}
	}
}
