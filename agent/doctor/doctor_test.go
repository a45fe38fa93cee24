package doctor

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/core/status"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/linux/feature"
	"pinfold.dev/pinfold/test/golden"
)

// TestNodes examines each node in testdata. An archive contains the files below the root directory
// (a file with the content "socket" stands for a socket), the answers of the API server and the
// kubelet in "cluster", and the report in "want".
func TestNodes(t *testing.T) {
	golden.Archives(t, "testdata/*.txtar", "want", examined)
}

// examined returns the report about a node.
func examined(t *testing.T, given *txtar.Archive) string {
	o := Defaults()
	o.Root = t.TempDir()
	o.Cores, o.NoScheduler = unix.ENODEV, &feature.UnsupportedError{Feature: feature.SchedExt}
	o.Cluster = unpack(t, o.Root, given)
	var text bytes.Buffer
	if err := Examine(context.Background(), o).WriteText(&text); err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(text.String(), o.Root, "")
}

// unpack makes the files of a node, and returns its cluster.
func unpack(t *testing.T, root string, archive *txtar.Archive) Cluster {
	t.Helper()
	var answers Cluster
	for _, f := range archive.Files {
		if f.Name == "cluster" {
			answers = answersOf(t, string(f.Data))
			continue
		}
		name := filepath.Join(root, f.Name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if string(f.Data) == "socket\n" {
			listenAt(t, name)
			continue
		}
		if err := os.WriteFile(name, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return answers
}

// listenAt makes a socket by a short path, because those of test directories are too long.
func listenAt(t *testing.T, name string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	link := filepath.Join(dir, "d")
	if err := os.Symlink(filepath.Dir(name), link); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(link, filepath.Base(name)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
}

type answers struct {
	policy, root                string
	condition                   corev1.NodeCondition
	policyError, conditionError error
	findings                    []nodetopology.Finding
}

func (a answers) Kubelet(context.Context) (policy, cgroupRoot string, err error) {
	return a.policy, a.root, a.policyError
}

func (a answers) Condition(context.Context) (corev1.NodeCondition, error) {
	return a.condition, a.conditionError
}

func (a answers) Findings(context.Context) ([]nodetopology.Finding, error) { return a.findings, nil }

func answersOf(t *testing.T, text string) answers {
	t.Helper()
	var a answers
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		switch what, value := fields[0], strings.Join(fields[1:], " "); {
		case what == "policy" && fields[1] == "error":
			a.policyError = errors.New(strings.TrimPrefix(value, "error "))
		case what == "policy":
			a.policy = value
		case what == "cgroup-root":
			a.root = value
		case what == "finding":
			a.findings = append(a.findings, nodetopology.Finding{Severity: string(status.Warning), Reason: fields[1], Message: strings.Join(fields[2:], " "), Pod: "p"})
		case fields[1] == "error":
			a.conditionError = errors.New(strings.TrimPrefix(value, "error "))
		case value != "none":
			a.condition = corev1.NodeCondition{Status: corev1.ConditionStatus(fields[1]), Reason: fields[2], Message: strings.Join(fields[3:], " ")}
		}
	}
	return a
}
