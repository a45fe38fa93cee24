package chart

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/diff"
	"golang.org/x/tools/txtar"

	"pinfold.dev/pinfold/kube/versions"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// diffOf returns the differences of two texts, with their surroundings.
func diffOf(before, after string) string {
	return string(diff.Diff("before", []byte(before), "after", []byte(after)))
}

// TestManifests compares the plain manifests with the chart.
func TestManifests(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("make", "--no-print-directory", "-C", root, "manifests", "MANIFESTS="+dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	files, err := filepath.Glob(dir + "/*.yaml")
	if err != nil || len(files) != 3 {
		t.Fatalf("%q %v, want 3 files", files, err)
	}
	for _, file := range files {
		text := must.Get(os.ReadFile(file))(t)
		golden.Compare(t, filepath.Join(root, "deploy/manifests", filepath.Base(file)), string(text))
		for _, object := range documents(t, string(text)) {
			typed(t, object)
		}
	}
}

// archived returns the values of an archive in testdata.
func archived(t *testing.T, archive *txtar.Archive) string {
	t.Helper()
	if len(archive.Files) != 1 || archive.Files[0].Name != "values.yaml" {
		t.Fatal("want a file values.yaml, and then changes")
	}
	return string(archive.Files[0].Data)
}

// TestOptions shows how values change what is rendered.
func TestOptions(t *testing.T) {
	defaults := render(t, "")
	golden.Archives(t, "testdata/*.txtar", "changes", func(t *testing.T, archive *txtar.Archive) string {
		manifest := render(t, archived(t, archive))
		for _, object := range documents(t, manifest) {
			if !ofOperator(object) {
				typed(t, object)
			}
		}
		changes := strings.SplitAfter(diffOf(defaults, abridged(t, manifest)), "\n")
		return strings.Join(slices.DeleteFunc(changes, func(line string) bool { return strings.HasPrefix(line, "@@") }), "")
	})
}

// abridged replaces the dashboard, which has 1,800 lines, by its name.
func abridged(t *testing.T, manifest string) string {
	t.Helper()
	const file = "files/dashboard.json"
	text := must.Get(os.ReadFile(filepath.Join(chartDir, file)))(t)
	indented := "    " + strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "\n    ")
	return strings.Replace(manifest, indented, "    ("+file+")", 1)
}

// TestBadValues checks what users see.
func TestBadValues(t *testing.T) {
	for _, test := range []struct{ name, values, want string }{
		{"no registry", "image: {registry: ''}", "image.registry is not set: set it to the registry that has the images"},
		{"tag in registry", "image: {registry: 'registry.example.com/pinfold:v1/'}", "does not match pattern"},
		{"nothing", "{scheduler: {enabled: false}, agent: {enabled: false}}", "scheduler.enabled and agent.enabled are both false"},
		{"unknown name", "agent: {burst: {percent: 5}}", "additional properties 'percent' not allowed"},
		{"unknown name at the top", "agents: {}", "additional properties 'agents' not allowed"},
		{"wrong type", "scheduler: {replicas: two}", "got string, want integer"},
		{"mode", "scheduler: {mode: primary}", "value must be one of 'secondary', 'default'"},
		{"duration", "agent: {period: 15}", "got number, want string"},
		{"duration without unit", "agent: {period: '15'}", "'15' does not match pattern"},
		{"flag", "agent: {extraArgs: [verbose]}", "'verbose' does not match pattern '^--[a-z]'"},
		{"digest", "agent: {image: {digest: abc}}", "'abc' does not match pattern"},
		{"account", "agent: {serviceAccount: {name: 'My Agent'}}", "'My Agent' does not match pattern"},
		{"ceilings", "ceilings: {default: {exclusiveCpus: {perPod: 1}}}", "additional properties 'exclusiveCpus' not allowed"},
		{"the other scheduler's name", "scheduler: {name: default-scheduler}", "to replace that one, set scheduler.mode=default"},
		{"no replicas", "scheduler: {replicas: 0}", "scheduler.replicas is 0, so no pod would be scheduled"},
		{"certificate without TLS", "agent: {metrics: {secure: false, tlsSecret: s}}", "a certificate is used with TLS only"},
		{"pool's name", "agent: {pools: {default: {}}}", "agent.pools.default: this is the pool of all other nodes"},
		{"pool's value", "agent: {pools: {canary: {percent: 5}}}", "at '/agent/pools/canary': additional properties 'percent' not allowed"},
		{"shared by pools", "agent: {pools: {canary: {metrics: {port: 1}}}}", "agent.pools.canary.metrics is set, but all pools have the same: set agent.metrics"},
		{"same pools", "agent: {pools: {a: {nodeSelector: {k: v}}, b: {nodeSelector: {k: v, l: w}}}}", "agent.pools.a.nodeSelector selects all nodes of the pool b, too"},
		{"pool of all", "agent: {pools: {a: {nodeSelector: {kubernetes.io/os: linux}}}}", "agent.pools.a.nodeSelector selects all nodes of the pool default, too"},
		{"objective without bound", "agent: {batchObjective: 1ms}", "batchPercent is 0, so that nothing of batch pods is bounded: set batchPercent, too"},
		{"round without end", "agent: {period: 0s}", "pinfold-agent: period is 0s: it must be more than 0s"},
		{"load never read", "agent: {pools: {canary: {sample: 0ms}}}", "pinfold-agent-canary: sample is 0ms: it must be more than 0s"},
		{"short samples", "agent: {sampleInterval: 0.9ms99us}", "sampleInterval is 0.9ms99us: it must be 1ms or more, or 0s for no sampling"},
		{"long wait", "agent: {batchMaxWait: 5s1ms}", "batchMaxWait is 5s1ms: it must be 100ms to 5s"},
		{"short wait", "agent: {batchMaxWait: 0.01s}", "batchMaxWait is 0.01s: it must be 100ms to 5s"},
		{"objective of a period", "agent: {batchPercent: 10, batchObjective: 0.2s}", "batchObjective is 0.2s: it must be 0s to 100ms"},
		{"moves and isolates", "agent: {repack: cores, partition: isolated}", "repack is cores and partition is isolated"},
		{"refuses without NRI", "agent: {onFailure: refuse, nriSocket: ''}", "onFailure is refuse and nriSocket is empty"},
		{"raises without samples", "agent: {burst: {policy: quota}, sampleInterval: 0s}", "burst.policy is quota and sampleInterval is 0s"},
		{"configuration of another version", "scheduler: {configuration: {apiVersion: kubescheduler.config.k8s.io/v1beta3}}", "v1beta3: convert it to kubescheduler.config.k8s.io/v1"},
		{"policy without effect", "scheduler: {hostNetwork: true, networkPolicy: {enabled: true}}", "no NetworkPolicy applies to pods on their nodes' network"},
		{"plugin twice", "scheduler: {configuration: {profiles: [{pluginConfig: [{name: Pinfold}]}]}}", "the chart adds the plugin Pinfold and its arguments"},
		{"the other scheduler's profile", "scheduler: {configuration: {profiles: [{schedulerName: default-scheduler}]}}", "default-scheduler is the cluster's other scheduler"},
		{"port twice", "agent: {healthPort: 9652}", "healthPort and agent.metrics.port are both 9652"},
		{"port of the scheduler", "{scheduler: {hostNetwork: true, port: 9652}}", "scheduler.port is 9652, a port of pinfold-agent, too"},
		{"short grace", "scheduler: {agentGracePeriod: 10ms}", "scheduler.agentGracePeriod is 10ms: it must be 1s or more, or 0s for no limit"},
		{"no time to uninstall", "uninstall: {timeout: 0m}", "uninstall.timeout is 0m: it must be more than 0s"},
		{"leases of another release", "agent: {leaseNamespace: other}", "set scheduler.enabled=false"},
		{"priority", "priorityClasses: {value: 2000000000}", "maximum: got 2×10⁰⁹, want 1×10⁰⁹"},
	} {
		t.Run(test.name, func(t *testing.T) {
			args := []string{"template", release, chartDir, "--namespace", namespace, "--set", registry, "--values", valuesFile(t, test.values)}
			if strings.Contains(test.values, "registry:") {
				args = slices.Delete(args, 5, 7)
			}
			out, err := helm(t, helm4, args...)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q; output:\n%s", err, test.want, out)
			}
		})
	}
}

// TestKubernetesVersions: the chart can be installed on the versions of Kubernetes as which the
// scheduler runs, the agent also on the one before them, and the message about another version says
// what works.
func TestKubernetesVersions(t *testing.T) {
	try := func(version string, values ...string) error {
		args := []string{"template", release, chartDir, "--set", registry, "--kube-version", version}
		for _, value := range values {
			args = append(args, "--set", value)
		}
		_, err := helm(t, helm4, args...)
		return err
	}
	const agentAlone, remedy = "scheduler.enabled=false", "scheduler.extraArgs={--emulated-version=1.37}"
	for _, version := range versions.Supported() {
		for _, suffix := range []string{".0", ".2-eks-3025e55", ".1+k3s1"} {
			if err := try("v" + version + suffix); err != nil {
				t.Error(err)
			}
		}
	}
	before, after := versions.Oldest().SubtractMinor(1).String()+".9", versions.Newest().AddMinor(1).String()+".0"
	works := fmt.Sprintf("the scheduler runs with %s to %s: ", versions.Oldest(), versions.Newest())
	if err := try(before); err == nil || !strings.Contains(err.Error(), works) || !strings.Contains(err.Error(), agentAlone) || strings.Contains(err.Error(), remedy) {
		t.Errorf("%s: %v", before, err)
	}
	if err := try(after); err == nil || !strings.Contains(err.Error(), works) || !strings.Contains(err.Error(), remedy) {
		t.Errorf("%s: %v", after, err)
	}
	for version, values := range map[string]string{before: agentAlone, after: remedy} {
		if err := try(version, values); err != nil {
			t.Errorf("%s with %s: %v", version, values, err)
		}
	}
	if err := try("1.32.9", agentAlone); err == nil || !strings.Contains(err.Error(), ">=1.33.0-0") {
		t.Errorf("1.32: %v", err)
	}
}

// TestDocumentedVersions: the documents name the versions of Kubernetes as which the scheduler
// runs.
func TestDocumentedVersions(t *testing.T) {
	span := fmt.Sprintf("%s to %s", versions.Oldest(), versions.Newest())
	for _, file := range []string{"README.md", "deploy/chart/README.md", "docs/operations.md", "docs/scheduler.md"} {
		text := must.Get(os.ReadFile(filepath.Join(root, file)))(t)
		if !strings.Contains(strings.Join(strings.Fields(string(text)), " "), "Kubernetes "+span) {
			t.Errorf("%s does not say %q", file, "Kubernetes "+span)
		}
	}
}
