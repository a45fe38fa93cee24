package node

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/core/status"
	"pinfold.dev/pinfold/local/localnode"
	"pinfold.dev/pinfold/report/terminal/terminaltest"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/tracefile"
)

// TestKubectl installs the agent on a stock cluster and asks it about a pod under load: status
// while the agent starts, "kubectl exec" of the command in the agent's image, and the plugin's
// subcommands sample, top and why.
func TestKubectl(t *testing.T) {
	requireNode(t)
	helm := filepath.Join(repositoryDir, "bin", "helm4")
	if _, err := os.Stat(helm); err != nil {
		t.Skipf("%v: make bin/helm4", err)
	}
	from := publish(t, firstVersion)
	c := startWith(t, "--stock", "--images", from.images(firstVersion))
	o := newOperator(t, c, "NODE="+localnode.Name)
	o.do(`mkdir -p ~/.local/bin; ln -s "$(command -v pinfold)" ~/.local/bin/kubectl-pinfold`)
	site := o.siteValues()
	maps.Copy(site["scheduler"].(map[string]any), map[string]any{"enabled": false})
	o.write("values.yaml", merged(t, "image: {registry: "+from.registry+"}", site))
	limited := c.run(t, podOf("limited", "", container("main", "8001", "500m")))
	k := openKernel(t)
	defer k.spin(t, k.containerGroup(limited, "main"))()

	awaitState := func(want status.AgentState) {
		eventually(t, "the agent's state", func() error {
			out, err := o.try("kubectl pinfold status $NODE -o json")
			if strings.Contains(out, `"`+string(status.AgentIsGone)+`"`) {
				t.Errorf("the agent has just been installed, and is gone: %s", out)
			}
			if err == nil && !strings.Contains(out, `"state":"`+string(want)+`"`) {
				err = fmt.Errorf("want %s: %s", want, out)
			}
			return err
		})
	}
	o.do("IMAGE=" + from.registry + `/pinfold-agent:$(sed -n 's/^appVersion: //p' deploy/chart/Chart.yaml)
		echo "kubectl pinfold \"\$@\" --debug --debug-image $IMAGE" >~/debug`)
	t.Run("without an agent", o.testWithoutAgent)
	kubelet := c.pid(t, localnode.Kubelet)
	must.Do(t, syscall.Kill(kubelet, syscall.SIGSTOP)) // until then the agent does not start
	o.do("helm install pinfold deploy/chart --namespace pinfold-system --create-namespace --values values.yaml")
	awaitState(status.AgentStarts)
	must.Do(t, syscall.Kill(kubelet, syscall.SIGCONT))
	awaitState(status.AgentReports)
	o.do("kubectl --namespace pinfold-system rollout status daemonset/pinfold-agent --timeout 2m")

	for _, block := range golden.ReadCode(t, repositoryDir+"/docs/pinfold.md") {
		if line, _, _ := strings.Cut(block.Text, "\n"); strings.HasPrefix(line, "kubectl --namespace") {
			o.do("AGENT=$(kubectl --namespace pinfold-system get pod --selector app.kubernetes.io/name=pinfold-agent --output name)\n" +
				strings.NewReplacer("AGENTPOD", "$AGENT", "shop/web-0", "default/limited", "1m", "1s", "web.csv", "without.csv").Replace(line))
		}
	}
	if out := o.do("cat without.csv"); !strings.Contains(out, "default/limited/main") {
		t.Errorf("the pod's main container is missing:\n%s", out)
	}
	t.Run("sample", o.testSample)
	t.Run("interrupted", o.testInterrupted)
	t.Run("errors", o.testKubectlErrors)
	t.Run("top", o.testKubectlTop)
	t.Run("why", o.testKubectlWhy)
}

// testWithoutAgent asks about a pod of a node that has no agent, from a pod that is gone afterwards,
// whatever ends the plugin.
func (o *operator) testWithoutAgent(t *testing.T) {
	gone := func(after string) {
		t.Helper()
		eventually(t, "the pods are gone", func() error {
			out, err := o.try("kubectl get pods --all-namespaces --selector app.kubernetes.io/name=pinfold-debug --output name")
			if strings.Contains(out, "pod/") {
				return fmt.Errorf("%s: %s", after, out)
			}
			return err
		})
	}
	if out, err := o.try("kubectl pinfold top limited"); err == nil || !strings.Contains(out, "Or give --debug and --debug-image IMAGE") {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := o.try("kubectl pinfold top"); err == nil || !strings.Contains(out, "no agent runs in namespace pinfold-system") {
		t.Errorf("%v: %s", err, out)
	}
	for _, what := range []string{"limited", "--node $NODE"} {
		if out := o.do("sh ~/debug top --once " + what); !strings.Contains(out, "default/limited/main") || !strings.Contains(out, "kubectl pinfold why limited -n default") {
			t.Errorf("%s: %s", what, out)
		}
		gone("top")
	}
	o.do("sh ~/debug sample limited --duration 2s -o without.parquet --weight && kubectl pinfold trace info without.parquet")
	if out, err := o.try("sh ~/debug sample limited --interval 1us"); err == nil || !strings.Contains(out, "the shortest is 1ms") {
		t.Errorf("a usage error: %s", out)
	}
	if out, err := o.try("kubectl pinfold top limited --debug --debug-image example.invalid/none"); err == nil || !strings.Contains(out, "does not start") {
		t.Errorf("an image that does not exist: %v: %s", err, out)
	}
	gone("errors")
	if canTrace(t) {
		if out := o.do("sh ~/debug why limited --duration 2s"); !strings.Contains(out, "default/limited/main") {
			t.Errorf("%s", out)
		}
	}
	for _, end := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		plugin := exec.CommandContext(t.Context(), "sh", o.dir+"/debug", "sample", "limited", "--duration", "1h", "--weight")
		plugin.Dir, plugin.Env = o.dir, o.env
		plugin.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		must.Do(t, plugin.Start())
		eventually(t, "the pod runs", func() error {
			_, err := o.try("kubectl get pods --selector app.kubernetes.io/name=pinfold-debug --output 'jsonpath={.items[0].status.phase}' | grep Running")
			return err
		})
		must.Do(t, syscall.Kill(-plugin.Process.Pid, end))
		_ = plugin.Wait()
		gone(end.String())
	}
	// The weights of a recording that was killed are put back by the next one at the latest.
	o.do("sh ~/debug sample limited --duration 1s -o after.parquet --weight")
	if out, err := o.try(`find /sys/fs/cgroup -path '*kubepods*' \( -name cpu.shares -o -name cpu.weight \) -exec grep -lx '262144\|10000' {} +`); err == nil {
		t.Errorf("groups with the largest weight: %s", out)
	}
}

// testSample brings a recording here, and has it read.
func (o *operator) testSample(t *testing.T) {
	o.do("kubectl pinfold sample limited --duration 3s -o web.parquet && kubectl pinfold sample limited --duration 1s -o web.csv")
	out := o.do("kubectl pinfold advise web.parquet")
	if !strings.Contains(out, "default/limited/main") {
		t.Errorf("%s", out)
	}
	rec, _, err := tracefile.Read(filepath.Join(o.dir, "web.parquet"), 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range rec.Series {
		s := &rec.Series[i]
		var usage, throttled time.Duration
		for _, sample := range s.Samples {
			usage, throttled = usage+sample.Usage, throttled+sample.ThrottledTime
		}
		if busy := s.Name == "default/limited/main"; len(s.Samples) < 20 || busy && (usage < 500*time.Millisecond || throttled == 0) {
			t.Errorf("%s has %d samples, used %v and was throttled for %v", s.Name, len(s.Samples), usage, throttled)
		}
	}
	if out := o.do("kubectl pinfold sample limited --duration 1s --output - 2>/dev/null"); strings.Count(out, "default/limited/main") < 5 {
		t.Errorf("%s", out)
	}
	if out, err := o.try("kubectl pinfold sample limited --duration 1s -o web.csv"); err == nil || !strings.Contains(out, "--force") {
		t.Errorf("%v: %s", err, out)
	}
}

// testInterrupted ends a recording with ctrl-C, which keeps it, and by killing the plugin, which
// leaves its journal. Both end the command on the node.
func (o *operator) testInterrupted(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		name := fmt.Sprintf("signal%d.parquet", signal)
		command := exec.CommandContext(t.Context(), program(t, "pinfold"), "sample", "limited", "-o", name)
		command.Args[0] = "kubectl-pinfold"
		command.Dir, command.Env = o.dir, o.env
		var out bytes.Buffer
		command.Stdout, command.Stderr = &out, &out
		must.Do(t, command.Start())
		journal := filepath.Join(o.dir, tracefile.JournalOf(name))
		eventually(t, "samples arrive", func() error {
			_, _, err := tracefile.Read(journal, 0)
			return err
		})
		if running := processesOf(t, "--remote"); len(running) != 1 {
			t.Errorf("on the node run %q", running)
		}
		must.Do(t, command.Process.Signal(signal))
		err := command.Wait()
		file := filepath.Join(o.dir, name)
		if signal == syscall.SIGKILL {
			err, file = nil, journal
		}
		if rec, _, readErr := tracefile.Read(file, 0); err != nil || readErr != nil || len(rec.Series) == 0 {
			t.Errorf("%v: %v, %v\n%s", signal, err, readErr, out.String())
		}
		eventually(t, "the command on the node ends", func() error {
			if running := processesOf(t, "--remote"); len(running) > 0 {
				return fmt.Errorf("%q", running)
			}
			return nil
		})
	}
}

// testKubectlErrors checks that errors say what to do.
func (o *operator) testKubectlErrors(t *testing.T) {
	o.do(`helm upgrade pinfold deploy/chart --namespace pinfold-system --values values.yaml --set agent.contention=false --wait --timeout 3m
		kubectl --namespace pinfold-system rollout status daemonset/pinfold-agent --timeout 2m
		kubectl create serviceaccount reader
		kubectl create role reader --verb get --resource pods && kubectl create rolebinding reader --role reader --serviceaccount default:reader
		kubectl --namespace pinfold-system create role reader --verb list --resource pods
		kubectl --namespace pinfold-system create rolebinding reader --role reader --serviceaccount default:reader
		kubectl run waits --image=` + webImage + ` --overrides='{"spec":{"schedulerName":"none"}}'
		kubectl config view --raw --flatten >reader.kubeconfig
		kubectl --kubeconfig reader.kubeconfig config set-credentials reader --token=$(kubectl create token reader)
		kubectl --kubeconfig reader.kubeconfig config set-context --current --user reader`)
	for command, want := range map[string]string{
		"sample other": "pod default/other does not exist: is --namespace right?",
		"sample waits": "pod default/waits has no node yet: 'kubectl pinfold status' says why pods wait",
		"sample limited --agent-namespace default":      "no agent runs on node " + localnode.Name + " in namespace default",
		"sample limited --kubeconfig reader.kubeconfig": "it takes the verbs get and create of pods/exec in namespace pinfold-system",
		"sample limited --exact -o exact.parquet":       "--exact needs an agent that may trace, and that of node " + localnode.Name + " may not (agent.contention is false). Or give --debug:",
		"why limited": "why needs an agent that may trace",
	} {
		if out, err := o.try("kubectl pinfold " + command); err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v, want %q", command, err, want)
		}
	}
}

// testKubectlWhy traces from a pod of its own, and then lets the agent trace.
func (o *operator) testKubectlWhy(t *testing.T) {
	if !canTrace(t) {
		return
	}
	check := func(out string) {
		t.Helper()
		if !strings.Contains(out, `"name":"default/limited/main"`) || !strings.Contains(out, `"limitCPUs":0.5`) || !strings.Contains(out, `"processName":"sh"`) {
			t.Errorf("%s", out)
		}
	}
	check(o.do("kubectl pinfold why limited --duration 2s -o json --debug"))
	o.do(`helm upgrade pinfold deploy/chart --namespace pinfold-system --values values.yaml --wait --timeout 3m
		kubectl --namespace pinfold-system rollout status daemonset/pinfold-agent --timeout 2m`)
	check(o.do("kubectl pinfold why limited --duration 2s -o json"))
	o.testKubectlFiles(t)
}

// testKubectlFiles sends a log of requests, and brings files of what was traced here.
func (o *operator) testKubectlFiles(t *testing.T) {
	requests := "start,end\n"
	for at, end := time.Now(), time.Now().Add(2*time.Minute); at.Before(end); at = at.Add(100 * time.Millisecond) {
		requests += at.Format(time.RFC3339Nano) + "," + at.Add(50*time.Millisecond).Format(time.RFC3339Nano) + "\n"
	}
	o.write("requests.csv", requests)
	out := o.do("kubectl pinfold why limited --duration 3s --requests requests.csv --perfetto limited.pftrace")
	trace, err := os.ReadFile(filepath.Join(o.dir, "limited.pftrace"))
	if !strings.Contains(out, "slowest 1%") || err != nil || !bytes.Contains(trace, []byte("quota left at edges, default/limited/main")) {
		t.Errorf("%v, %d bytes: %s", err, len(trace), out)
	}
	if out, err := o.try("kubectl pinfold why limited --requests missing.csv"); err == nil || !strings.Contains(out, "missing.csv: no such file") {
		t.Errorf("%v: %s", err, out)
	}
	o.write("old.csv", "start,end\n2026-01-01T00:00:00Z,2026-01-01T00:00:01Z\n")
	out, err = o.try("kubectl pinfold why limited --duration 1s --requests old.csv --perfetto old.pftrace")
	if _, missing := os.Stat(filepath.Join(o.dir, "old.pftrace")); err == nil || missing != nil || !strings.Contains(out, "is it the log of another time?") {
		t.Errorf("%v, %v: %s", err, missing, out)
	}
	o.do("kubectl pinfold sample limited --duration 3s -o exact.parquet --exact")
	running, edges := time.Duration(0), 0
	for s, err := range tracefile.Spans(filepath.Join(o.dir, "exact.parquet")) {
		switch {
		case err != nil:
			t.Fatal(err)
		case s.Quota != nil:
			edges++
		case s.State == blame.Running:
			running += s.To - s.From
		}
	}
	if running < 100*time.Millisecond || edges < 10 {
		t.Errorf("threads ran for %v in %d periods of 100ms", running, edges)
	}
}

// testKubectlTop shows tables of a pod and of the node, and a live one, which ctrl-C and the end of
// the plugin end on the node, too.
func (o *operator) testKubectlTop(t *testing.T) {
	if out := o.do("kubectl pinfold top"); !strings.Contains(out, "default/limited/main") || !strings.Contains(out, "kubectl pinfold why limited -n default") {
		t.Errorf("of all nodes: %s", out)
	}
	if out := o.do("kubectl pinfold top -n other 2>&1"); strings.Contains(out, "default/") || !strings.Contains(out, "no such containers on 1 node") {
		t.Errorf("of another namespace: %s", out)
	}
	for _, what := range []string{"limited", "--node $NODE"} {
		if out := o.do("kubectl pinfold top " + what); !strings.Contains(out, "default/limited/main") {
			t.Errorf("%s: %s", what, out)
		}
	}
	for name, end := range map[string]func(person *os.File, plugin *os.Process) error{
		"ctrl-C": func(person *os.File, _ *os.Process) error { _, err := person.WriteString("\x03"); return err },
		"q":      func(person *os.File, _ *os.Process) error { _, err := person.WriteString("q"); return err },
		"killed": func(_ *os.File, plugin *os.Process) error { return plugin.Kill() },
	} {
		person, terminal := terminaltest.Pair(t, 100)
		command := exec.CommandContext(t.Context(), program(t, "pinfold"), "top", "limited")
		command.Args[0] = "kubectl-pinfold"
		command.Dir, command.Env = o.dir, o.env
		command.Stdin, command.Stdout, command.Stderr = terminal, terminal, terminal
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		shown := ""
		for !strings.Contains(shown, "limited/main") {
			buffer := make([]byte, 4096)
			n, err := person.Read(buffer)
			if shown += string(buffer[:n]); err != nil {
				t.Fatalf("%s: %v: %q", name, err, shown)
			}
		}
		go func() { _, _ = io.Copy(io.Discard, person) }()
		if err := end(person, command.Process); err != nil {
			t.Fatal(err)
		}
		if err := command.Wait(); (err != nil) != (name == "killed") {
			t.Errorf("%s: %v", name, err)
		}
		eventually(t, "the command on the node ends", func() error {
			if running := processesOf(t, "--remote"); len(running) > 0 {
				return fmt.Errorf("%s: %q", name, running)
			}
			return nil
		})
	}
}
