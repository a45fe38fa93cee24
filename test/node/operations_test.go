package node

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/lab/localnode"
	"pinfold.dev/pinfold/linux/cgroup"
)

// operationsPage is the page whose commands TestOperations executes.
const operationsPage = repositoryDir + "/docs/operations.md"

// TestOperations executes all commands of docs/operations.md, in their order, on a cluster that has
// nothing of Pinfold: installation, upgrade, rollback and removal, under running pods. In between it
// checks what the kernel has for the pods' containers.
func TestOperations(t *testing.T) {
	requireNode(t)
	images := requireImages(t)
	p := readPage(t, operationsPage)
	c := startWith(t, "--stock", "--images", images)
	c.chart = &installed{namespace: "pinfold-system", scheduler: "pinfold-scheduler"}
	o := newOperator(t, c, "REGISTRY=registry.example.com/pinfold", "NODE="+localnode.Name, "VERSION="+nextVersion)
	for name, text := range p.files {
		o.write(name, text)
	}
	o.write("values.yaml", p.files["values.yaml"]+o.siteValues())
	var s *settled
	before := o.pod("earlier")
	after := map[string]func(){
		"install": func() {
			s = settleOn(t, c)
			t.Run("rows", s.testRows)
			t.Run("node", s.testNode)
			t.Run("exec", s.testExec)
			t.Run("foreign writer", s.testForeignWriter)
			t.Run("resize", s.testResize)
			t.Run("static pod", s.testStaticPod)
			t.Run("kill agent", s.testKillContainer)
		},
	}
	around := map[string]func(run func()){
		"upgrade":   func(run func()) { s.undisturbed(t, run) },
		"rollback":  func(run func()) { s.undisturbed(t, run) },
		"uninstall": func(run func()) { s.uninstall(t, o, run) },
	}
	for _, script := range p.scripts {
		run := func() { o.do(script.text) }
		if wrap := around[script.name]; wrap != nil {
			wrap(run)
			delete(around, script.name)
		} else {
			run()
		}
		if check := after[script.name]; check != nil {
			check()
			delete(after, script.name)
		}
	}
	if len(after)+len(around) > 0 {
		t.Errorf("%s has no commands with the names %q and %q", operationsPage, slices.Collect(maps.Keys(after)), slices.Collect(maps.Keys(around)))
	}
}

// write writes a file that the commands read.
func (o *operator) write(name, text string) {
	o.Helper()
	if err := os.WriteFile(filepath.Join(o.dir, name), []byte(text), 0o644); err != nil {
		o.Fatal(err)
	}
}

// siteValues returns what an installation on this node needs besides the page's values: this cluster
// has no service addresses, its pods cannot reach the API server on loopback, and its containerd has
// another NRI socket.
func (o *operator) siteValues() string {
	o.Helper()
	socket := regexp.MustCompile(`socket_path = '(.*)'`).FindStringSubmatch(readFile(o.T, nodeFile(o.T, o.cluster.dir, "containerd.toml")))
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(o.cluster.dir, "kubeconfig"))
	if err != nil || socket == nil {
		o.Fatalf("the NRI socket is %v; %v", socket, err)
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		o.Fatal(err)
	}
	text, err := yaml.Marshal(map[string]any{
		"apiServer": map[string]any{"host": server.Hostname(), "port": server.Port()},
		"scheduler": map[string]any{"hostNetwork": true, "replicas": 1},
		"agent":     map[string]any{"nriSocket": socket[1], "systemd": naming().Driver == kubepods.Systemd},
	})
	if err != nil {
		o.Fatal(err)
	}
	return string(text)
}
