package node

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// installed is Pinfold as the chart has installed it on a stock cluster.
type installed struct {
	namespace string
	scheduler string // schedulerName of the pods
}

// repositoryDir is the root of the repository.
const repositoryDir = "../.."

// operator executes the commands of docs/operations.md as their reader does.
type operator struct {
	*testing.T
	cluster *cluster
	dir     string   // of the commands
	env     []string // NAME=VALUE
}

// newOperator returns an operator of the cluster with the commands that the page names.
func newOperator(t *testing.T, c *cluster, variables ...string) *operator {
	t.Helper()
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	must.Do(t, os.Mkdir(bin, 0o755))
	for name, program := range map[string]string{
		"helm": filepath.Join(repositoryDir, "bin", "helm4"), "kubectl": program(t, "kubectl"),
		"pinfold": program(t, "pinfold"),
	} {
		path, err := filepath.Abs(program)
		if err == nil {
			err = os.Symlink(path, filepath.Join(bin, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	deploy, err := filepath.Abs(filepath.Join(repositoryDir, "deploy"))
	if err == nil {
		err = os.Symlink(deploy, filepath.Join(dir, "deploy"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return &operator{T: t, cluster: c, dir: dir, env: append(os.Environ(), append(variables,
		"KUBECONFIG="+filepath.Join(c.dir, "kubeconfig"), "PATH="+bin+":"+filepath.Join(dir, ".local/bin")+":"+os.Getenv("PATH"), "HOME="+dir)...)}
}

// try executes a shell script and returns its output.
func (o *operator) try(script string) (string, error) {
	o.Helper()
	script = strings.ReplaceAll(script, " oci://", " --plain-http oci://") // the registry has no certificate
	command := exec.CommandContext(o.Context(), "bash", "-euo", "pipefail", "-c", script)
	command.Dir, command.Env = o.dir, o.env
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	started := time.Now()
	err := command.Run()
	o.Logf("$ %s\n%s(%v)", strings.TrimSpace(script), out.String(), time.Since(started).Round(time.Second/10))
	return out.String(), err
}

// do executes a shell script, which must succeed.
func (o *operator) do(script string) string {
	o.Helper()
	out, err := o.try(script)
	if err != nil {
		o.Fatalf("%v\n%s", err, o.cluster.situation())
	}
	return out
}

// situation describes the pods of all namespaces and their last events, for messages.
func (c *cluster) situation() string {
	var out strings.Builder
	ctx, cancel := contextFor(10 * time.Second)
	defer cancel()
	pods, err := c.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		fmt.Fprintf(&out, "%s/%s: %s", p.Namespace, p.Name, p.Status.Phase)
		for _, s := range append(p.Status.InitContainerStatuses, p.Status.ContainerStatuses...) {
			if !s.Ready {
				fmt.Fprintf(&out, "\n  %s: %+v", s.Name, s.State)
				if text, err := c.client.CoreV1().Pods(p.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{Container: s.Name, TailLines: new(int64(10))}).DoRaw(ctx); err == nil {
					fmt.Fprintf(&out, "\n%s", text)
				}
			}
		}
		fmt.Fprintln(&out)
	}
	events, err := c.client.CoreV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "type=Warning"})
	if err != nil {
		return out.String() + err.Error()
	}
	for _, e := range events.Items {
		fmt.Fprintf(&out, "%s %s/%s: %s\n", e.InvolvedObject.Kind, e.InvolvedObject.Namespace, e.InvolvedObject.Name, e.Message)
	}
	return out.String()
}

// page is a Markdown text whose fenced blocks "sh NAME" are scripts and "yaml file=NAME" are files.
type page struct {
	scripts []script
	files   map[string]string
}

type script struct{ name, text string }

func readPage(t *testing.T, path string) page {
	t.Helper()
	p := page{files: map[string]string{}}
	for _, block := range golden.ReadCode(t, path) {
		kind, name, _ := strings.Cut(block.Info, " ")
		if kind == "sh" {
			p.scripts = append(p.scripts, script{name, block.Text})
		} else if file := block.File(); file != "" {
			p.files[file] = block.Text
		}
	}
	return p
}

// text returns the text of a script.
func (p page) text(name string) string {
	return p.scripts[slices.IndexFunc(p.scripts, func(s script) bool { return s.name == name })].text
}

// contextFor returns a context for work that a test does when its own context may have ended.
func contextFor(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}
