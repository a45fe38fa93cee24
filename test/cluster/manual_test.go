package cluster

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/need"
)

const statusManual = "../../docs/status.md"

// TestStatusManual executes the examples of docs/status.md on a cluster with the pods that it
// shows. Ages, identities and versions may differ, and with them the breaks of lines.
func TestStatusManual(t *testing.T) {
	c := begin(t)
	c.home = metav1.NamespaceDefault // which the manual shows; no other test has pods there
	t.Cleanup(func() {
		c.eventually("pods are deleted", func() error { return c.deletePods(context.Background(), c.home) })
	})
	c.create(asking("web", 3, ""))
	c.allocation(c.bound("web"))
	c.create(`
metadata: {name: batch, annotations: {cpuset-scheduler: "true", cpu-policy: static-burst}}
spec:
  nodeSelector: {kubernetes.io/hostname: ` + small0 + `}
  containers: [{name: app, image: app, resources: {requests: {cpu: 500m}, limits: {cpu: 2}}}]
`)
	c.allocation(c.bound("batch"))
	c.create(`
metadata: {name: direct}
spec:
  nodeName: ` + small0 + `
  containers: [{name: app, image: app, resources: {requests: {cpu: 5}}}]
`)
	c.create(asking("large", 6, ""))
	c.waits("large", "CPUs")
	binary, err := need.Program("pinfold")
	c.must(err)
	before, err := os.ReadFile(statusManual)
	c.must(err)
	commands := 0
	after := golden.Console(string(before), "console", func(command string) string {
		commands++
		shell := exec.CommandContext(t.Context(), "sh", "-c", command+` 2>&1; status=$?; [ $status = 0 ] || echo exit status $status`)
		out, _, _ := c.execute(shell, "KUBECONFIG="+c.kubeconfig(), "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"))
		return out
	})
	if commands < 4 {
		t.Errorf("the manual has %d examples, want some", commands)
	}
	if golden.Updating() || alike(string(before)) != alike(after) {
		golden.Compare(t, statusManual, after)
	}
}

// alike replaces what differs from one run to the next.
func alike(text string) string {
	for pattern, same := range map[string]string{
		`\S+_[0-9a-f]{8}-[0-9a-f-]{27}`: "HOLDER",
		`leads, \S+,`:                   "leads, VERSION,",
		`\b\d+s\b`:                      "AGE",
		`-{3,}|─+`:                      "RULE",
	} {
		text = regexp.MustCompile(pattern).ReplaceAllString(text, same)
	}
	return strings.Join(strings.Fields(text), " ")
}
