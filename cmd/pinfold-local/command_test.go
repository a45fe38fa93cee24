package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/cmd/frame/frametest"
	"pinfold.dev/pinfold/cmd/pinfold-local/internal/component"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/local/simnode"
	"pinfold.dev/pinfold/report/terminal/terminaltest"
	"pinfold.dev/pinfold/test/must"
)

func runHere(t *testing.T, args ...string) (stderr string, err error) {
	t.Helper()
	var messages bytes.Buffer
	err = frame.Run(t.Context(), newRoot(), args, strings.NewReader(""), io.Discard, &messages)
	return messages.String(), err
}

// If up gets further than a test expects, the components and the supervisor that it starts are this
// test program, which exits at once.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == component.Word || os.Args[1] == "up") {
		os.Exit(1)
	}
	frametest.Main(m, "pinfold-local", main)
}

func TestCompletion(t *testing.T) { frametest.Completion(t, "testdata/completion.txtar") }

func TestDocuments(t *testing.T) { frametest.Documents(t, newRoot) }

func TestWrongFlags(t *testing.T) { frametest.WrongFlags(t, newRoot) }

func TestHelp(t *testing.T) { frametest.Help(t, newRoot) }

func TestFlags(t *testing.T) { frametest.Flags(t, newRoot) }

func TestMistakesAreExplained(t *testing.T) {
	t.Chdir(t.TempDir())
	must.Do(t, os.WriteFile("odd.json", []byte(`{"cpus":[]}`), 0o600))
	for _, test := range []struct {
		args   string
		want   string
		status int
	}{
		{"fly", `unknown command "fly"`, 2},
		{"up now", `"now" is one argument too many`, 2},
		{"up --wings", "unknown flag: --wings\nsee 'pinfold-local up --help'", 2},
		{"up --nodes zx-81", `"zx-81" is neither a name (amd-256, intel-104)`, 2},
		{"up --nodes zx-81", "; host is this machine", 2},
		{"up --nodes intel-104=many", "the count is not a number", 2},
		{"up --machine odd.json=-1", "the count is not a number", 2},
		{"up --kubernetes 1.33", "--kubernetes: version 1.33 of Kubernetes is not supported: 1.34, 1.35, 1.36, 1.37 are", 2},
		{"up --kubernetes latest", `"latest" is not a minor version of Kubernetes: use one of 1.34, 1.35, 1.36, 1.37`, 2},
		{"up --feature-gates DRAConsumable=true", "--feature-gates: unrecognized feature gate: DRAConsumable", 2},
		{"up --kubernetes 1.34 --feature-gates DRAListTypeAttributes=true", "--feature-gates: cannot set feature gate DRAListTypeAttributes", 2},
		{"up --feature-gates DRAConsumableCapacity", "expect string=bool", 2},
		{"up --detach --kubernetes 1.34.2", `"1.34.2" is not a minor version of Kubernetes`, 2},
		{"up --node --kubernetes 1.36", "the kubelet of a real node is 1.37 and must not be newer", 2},
		{"up --machine absent.json", "absent.json: no such file", 1},
		{"up --machine odd.json", "odd.json", 1},
		{"up --scheduler-config absent.yaml", "absent.yaml: no such file", 1},
		{"up --detach --nodes bogus", `"bogus" is neither a name (amd-256, intel-104)`, 2},
		{"up --detach --machine absent.json", "absent.json: no such file", 1},
		{"up --detach --scheduler-config absent.yaml", "absent.yaml: no such file", 1},
		{"status", "no local cluster is running in .pinfold", 1},
		{"status -o xml", "must be text or json", 2},
	} {
		t.Run(test.args, func(t *testing.T) {
			_, err := runHere(t, strings.Fields(test.args)...)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
			if status := frame.ExitStatus(err); status != test.status {
				t.Errorf("exit status %d, want %d", status, test.status)
			}
			if _, err := os.Stat(defaultDir); !os.IsNotExist(err) {
				t.Errorf("a data directory was left behind: %v", err)
			}
		})
	}
}

func TestDownWithoutCluster(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cluster")
	stderr, err := runHere(t, "down", "--data-dir", dir)
	if err != nil || !strings.Contains(stderr, "no local cluster is running in "+dir) {
		t.Errorf("down: %v, %q", err, stderr)
	}
}

// TestFollow checks that down shows what a supervisor says at its end, although its log is removed.
func TestFollow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "supervisor.log")
	must.Do(t, os.WriteFile(path, []byte("before\n"), 0o600))
	said := follow(path)
	log := must.Get(os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0))(t)
	defer log.Close()
	must.Get(log.WriteString("kept files\n"))(t)
	must.Do(t, os.Remove(path))
	var out strings.Builder
	said(&out)
	follow(path)(&out)
	if out.String() != "kept files\n" {
		t.Errorf("shows %q", out.String())
	}
}

// TestDemoFitsTheTerminal checks width and colour of the demo's maps.
func TestDemoFitsTheTerminal(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	for name, colour := range map[string]bool{"dumb": false, "xterm": true} {
		t.Setenv("TERM", name)
		tty := terminaltest.Open(t, 120)
		if got := demoOutput(tty, frame.NewProgress(tty)).Map; got.Width != 120 || got.Colour != colour {
			t.Errorf("TERM=%s: maps with %+v, want 120 columns, colour %t", name, got, colour)
		}
	}
	if got := demoOutput(&bytes.Buffer{}, frame.NewProgress(io.Discard)).Map; got.Width != 0 || got.Colour {
		t.Errorf("a pipe: maps with %+v, want no width and no colour", got)
	}
}

func TestNodeGroups(t *testing.T) {
	file := filepath.Join(t.TempDir(), "My Machine_2.json")
	text := must.Get(topology.Shape{CoresPerLLC: 3}.MustBuild().MarshalJSON())(t)
	must.Do(t, os.WriteFile(file, text, 0o600))
	groups := must.Get(nodeGroups([]string{"amd-256=2", "cores:2,threads:2", "amd-256"}, []string{file + "=1"}))(t)
	var got []string
	for _, node := range simnode.Nodes(groups) {
		got = append(got, node.Name)
	}
	want := "amd-256-0 amd-256-1 p1n1l1c2t2-0 amd-256-2 my-machine-2-0"
	if strings.Join(got, " ") != want {
		t.Errorf("nodes %v, want %s", got, want)
	}
	if cpus := len(groups[3].Machine.CPUs); cpus != 3 {
		t.Errorf("the machine of the file has %d CPUs, want 3", cpus)
	}
	for path, want := range map[string]string{
		"/a/b/Epyc 7H12 (NPS4).json":       "epyc-7h12-nps4",
		"...json":                          "machine",
		strings.Repeat("long-", 20) + ".x": strings.TrimSuffix(strings.Repeat("long-", 10), "-"),
	} {
		if got := nodeName(path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

// TestContradictions checks that commands reject flags that do not go together.
func TestContradictions(t *testing.T) {
	for flags, says := range map[string]string{
		"up --agent-flag=--burst-policy=auto":        "--agent-flag has no effect without --node: give both",
		"up --images=bin/images":                     "--images has no effect without --node",
		"up --node-binaries=bin":                     "--node-binaries has no effect without --node",
		"up --node=false --cgroup-driver=systemd":    "--cgroup-driver has no effect without --node",
		"demo --cgroup-driver=systemd":               "--cgroup-driver has no effect without --node",
		"demo --agent-flag=-v":                       "--agent-flag has no effect without --node",
		"up --stock --nodes=intel-104":               "which --stock leaves out: use --node instead of --nodes and --machine",
		"up --stock --scheduler-config=c.yaml":       "configure Pinfold, which --stock leaves out",
		"up --stock --node --agent-flag=--period=1s": "configure Pinfold, which --stock leaves out",
	} {
		_, err := runHere(t, strings.Fields(flags)...)
		if frame.ExitStatus(err) != 2 || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", flags, err, says)
		}
	}
}

func TestDetachedSupervisorGetsAllFlags(t *testing.T) {
	given := newUp()
	must.Do(t, given.ParseFlags([]string{"--data-dir=d", "--keep-data", "--nodes=host", "--nodes=amd-256=2", "--detach", "--agent-flag=-v=2"}))
	command := must.Get(supervisorCommand(given.Flags(), nil))(t)
	want := "up --agent-flag=-v=2 --data-dir=d --detach=true --keep-data=true --nodes=host --nodes=amd-256=2 --detach=false"
	if got := strings.Join(command.Args[1:], " "); got != want {
		t.Errorf("the supervisor gets %q, want %q", got, want)
	}
}
