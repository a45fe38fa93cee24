package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/cmd/frame/frametest"
	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/test/must"
)

func TestMain(m *testing.M) { frametest.Main(m, "pinfold-agent", main) }

func TestCompletion(t *testing.T) { frametest.Completion(t, "testdata/completion.txtar") }

func TestDocuments(t *testing.T) { frametest.Documents(t, newRoot) }

func TestWrongFlags(t *testing.T) { frametest.WrongFlags(t, newRoot) }

func TestHelp(t *testing.T) { frametest.Help(t, newRoot) }

func TestFlags(t *testing.T) { frametest.Flags(t, newRoot) }

// TestPriorities checks that the help names what --batch-priority accepts: single mechanisms, and each
// combination of two that is not the same as one of them.
func TestPriorities(t *testing.T) {
	usage := newRun().Flags().Lookup("batch-priority").Usage
	_, list, _ := strings.Cut(usage, "all others: ")
	named := strings.Split(strings.NewReplacer(" or ", ", ", " (includes idle)", "").Replace(list), ", ")
	means := map[string]bool{}
	for _, text := range named {
		means[must.Get(colocation.ParsePriority(text))(t).String()] = true
	}
	for _, a := range colocation.Mechanisms() {
		for _, b := range colocation.Mechanisms() {
			if p, err := colocation.ParsePriority(string(a + "," + b)); err == nil && !means[p.String()] && !means[string(b+","+a)] {
				t.Errorf("the help does not name %s,%s: %s", a, b, usage)
			}
		}
	}
}

// TestCommandLine checks the output and the exit status of command lines.
func TestCommandLine(t *testing.T) {
	t.Setenv("NODE_NAME", "")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	must.Do(t, os.WriteFile(kubeconfig, []byte(`{"apiVersion":"v1","kind":"Config","current-context":"c",`+
		`"contexts":[{"name":"c","context":{"cluster":"c"}}],"clusters":[{"name":"c","cluster":{"server":"http://127.0.0.1:1"}}]}`), 0o600))
	empty, broken := filepath.Join(t.TempDir(), "empty"), filepath.Join(t.TempDir(), "broken")
	for file, text := range map[string]string{empty: "\n", broken: "default: {burst: {percent: 5}}"} {
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	}
	reports := t.TempDir()
	report := fmt.Sprintf(`{"time":%q,"node":"n1","mode":"observe","pending":[{"group":"/kubepods/x/y","pod":"a/web","container":"app",`+
		`"files":[{"file":"cpuset.cpus","now":"","wanted":"0,4"}]},{"group":"/kubepods","files":[]}]}`, time.Now().Add(-5*time.Minute-30*time.Second).Format(time.RFC3339))
	if err := os.WriteFile(filepath.Join(reports, "report.json"), []byte(report), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args   string
		status int
		says   string
	}{
		{"version", 0, "pinfold-agent "},
		{"--version", 0, "pinfold-agent "},
		{"--help", 0, "When it stops, nothing is undone"},
		{"run --help", 0, "minSharedCPUs (default 1)"},
		{"fly", 2, `unknown command "fly"`},
		{"run fly", 2, `"fly" is one argument too many`},
		{"run --fly", 2, "unknown flag: --fly\nsee 'pinfold-agent run --help'"},
		{"run", 2, "give --node-name, or set NODE_NAME"},
		{"run --node-name n1", 2, "name a kubeconfig file with --kubeconfig"},
		{"run --node-name n1 --kubeconfig /no/such/file", 1, "read the kubeconfig"},
		{"run --node-name n1 --kubeconfig " + kubeconfig + " --min-shared-cpus -1", 2, "--min-shared-cpus must not be negative"},
		{"run --node-name n1 --kubeconfig " + kubeconfig + " --burst-percent 0", 2, "--burst-percent 0: it must be 1 to 10000"},
		{"run --node-name n1 --kubeconfig " + kubeconfig + " --quota-percent 99", 2, "--quota-percent 99: it must be 100 to 10000"},
		{"run --node-name n1 --kubeconfig " + kubeconfig + " --quota-burst-seconds 0", 2, "--quota-burst-seconds 0: it must be 1 or more"},
		{"run --node-name n1 --kubeconfig " + kubeconfig + " --sample-interval 100us", 2, "--sample-interval: an interval of 100µs is too short: the shortest is 1ms; 0 turns sampling off"},
		{"run --node-name n1 --kubeconfig " + kubeconfig + " --batch-percent 101", 2, "--batch-percent 101: it must be 0 to 100"},
		{"run --node-name n1 --kubeconfig " + kubeconfig + " --batch-percent 65% --batch-objective 101ms", 2, "--batch-objective 101ms: it must be 0 to 100ms"},
		{"run --node-name n1 --kubeconfig " + kubeconfig + " --trace-percent 0.5", 2, `"--trace-percent" flag: has no unit: write 0.5% or 50%`},
		{"run --node-name n1 --kubeconfig " + kubeconfig + " --burst-percent 99.5%", 2, "must be a whole percentage such as 5%"},
		{"run --node-name n1 --kubeconfig " + kubeconfig + " --trace-percent 101", 2, "--trace-percent 101: it must be 0 to 100"},
		{"run --node-name n1 --kubeconfig " + kubeconfig + " --trace-percent NaN", 2, `"--trace-percent" flag: must be a percentage such as 5%`},
		{"run --node-name n1 --kubeconfig " + kubeconfig + " --on-failure refuse --nri-socket=", 2, "--on-failure=refuse needs --nri-socket"},
		{"run --node-name n1 --kubeconfig " + kubeconfig + " --burst-policy quota --sample-interval 0", 2, "without sampling no quota is raised"},
		{"run --node-name n1 --kubeconfig " + kubeconfig + " --batch-percent 0 --batch-objective 1ms", 2, "--batch-objective needs --batch-percent"},
		{"run --node-name n1 --kubeconfig " + kubeconfig + " --batch-objective 0", 2, "--batch-objective has no effect without --batch-percent: give both"},
		{"run --node-name n1 --kubeconfig " + kubeconfig + " --batch-floor 1", 2, "--batch-floor has no effect without --batch-percent"},
		{"run --node-name n1 --kubeconfig " + kubeconfig + " --batch-priority idle --batch-max-wait 1s", 2, "--batch-max-wait has no effect without --batch-priority sched_ext"},
		{"run --node-name n1 --kubeconfig " + kubeconfig + " --batch-priority best", 2, `"--batch-priority" flag: there is no mechanism "best"`},
		{"run --node-name n1 --kubeconfig " + kubeconfig + " --batch-floor 0.001", 2, "--batch-floor 0.001: it must be 0.01 to"},
		{"run --node-name n1 --kubeconfig " + kubeconfig + " --batch-floor NaN", 2, `"--batch-floor" flag: must be a number of CPUs above 0`},
		{"run --node-name n1 --kubeconfig " + kubeconfig + " --partition member", 2, `"--partition" flag: must be none or root or isolated`},
		{"run --node-name n1 --kubeconfig " + kubeconfig + " --run-dir /proc/no", 1, "--run-dir names another one"},
		{"run --node-name n1 --kubeconfig " + kubeconfig + " --host-root " + t.TempDir(), 1, "is " + os.TempDir()},
		{"run --node-name n1 --kubeconfig " + kubeconfig + " --ceilings /no/such/file", 1, "--ceilings: open /no/such/file: no such file"},
		{"run --node-name n1 --kubeconfig " + kubeconfig + " --ceilings " + empty, 1, "the file is empty: write {}"},
		{"run --node-name n1 --kubeconfig " + kubeconfig + " --ceilings " + broken, 1, `unknown field "percent"`},
		{"run --node-name n1 --kubeconfig " + kubeconfig + " --mode watch", 2, `"--mode" flag: must be enforce or observe`},
		{"status --run-dir /no/such", 1, "no agent runs on this machine, or it has just started: /no/such/report.json does not exist"},
		{"status --run-dir " + reports, 0, "node n1, mode observe, last round 5m ago: it would change 2 control groups\ncontainer app of pod a/web /kubepods/x/y\n  cpuset.cpus: (empty) -> 0,4\n/kubepods\n"},
		{"status -o json --run-dir " + reports, 0, `"pending":[{"group":"/kubepods/x/y","pod":"a/web","container":"app","files":[{"file":"cpuset.cpus","now":"","wanted":"0,4"}]},`},
		{"cleanup", 2, "give --node-name"},
		{"uninstall", 2, "give --daemonset NAMESPACE/NAME"},
		{"uninstall --daemonset a/b --daemonset a/b/c", 2, `--daemonset "a/b/c": give a DaemonSet of agents as NAMESPACE/NAME`},
		{"uninstall --daemonset a/b --timeout 0s", 2, "--timeout must be more than 0"},
		{"uninstall --daemonset a/b", 2, "name a kubeconfig file with --kubeconfig"},
		{"uninstall --daemonset a/b --timeout 1s --kubeconfig " + kubeconfig, 1, "read the agent's DaemonSet: Get"},
	} {
		var out bytes.Buffer
		err := frame.Run(t.Context(), newRoot(), strings.Fields(test.args), nil, &out, &out)
		text := out.String()
		if err != nil {
			text += err.Error()
		}
		if frame.ExitStatus(err) != test.status || !strings.Contains(text, test.says) {
			t.Errorf("%s: status %d, want %d; want %q in\n%s", test.args, frame.ExitStatus(err), test.status, test.says, text)
		}
	}
}

// TestManual checks that all flags exist that documents about the agent name by themselves. A name
// within a command line is checked by TestDocuments.
func TestManual(t *testing.T) {
	exists := map[string]bool{}
	for _, command := range newRoot().Commands() {
		command.Flags().VisitAll(func(f *pflag.Flag) { exists["--"+f.Name] = true })
	}
	for _, document := range []string{"agent.md", "monitoring.md", "security.md"} {
		text, err := os.ReadFile("../../docs/" + document)
		if err != nil {
			t.Fatal(err)
		}
		named := regexp.MustCompile("`(--[a-z-]+)").FindAllStringSubmatch(string(text), -1)
		if len(named) == 0 {
			t.Errorf("docs/%s names no flags", document)
		}
		for _, name := range named {
			if !exists[name[1]] {
				t.Errorf("docs/%s: the agent has no flag %s", document, name[1])
			}
		}
	}
}
