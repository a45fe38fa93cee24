package documents

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
	"pinfold.dev/pinfold/test/wait"
)

// TestLocal executes the commands of docs/local.md on clusters of simulated nodes, and applies the
// manifests of README.md and deploy/examples to one. Then a scheduler starts with the configuration
// of docs/scheduler.md.
func TestLocal(t *testing.T) {
	const document = "docs/local.md"
	s := newShell(t, "pinfold-local")
	s.kubectl()
	defer s.down()
	up := s.command(s.blocks(document, "sh up")[0])
	var out strings.Builder
	up.Stdout, up.Stderr = &out, &out
	must.Do(t, up.Start())
	wait.Until(t, "the cluster is ready", func() error {
		status, err := s.command("pinfold-local status 2>&1").CombinedOutput()
		if !strings.Contains(string(status), "(ready)") {
			err = fmt.Errorf("%s %w", status, err)
		}
		return err
	})
	if nodes := strings.Count(s.run(s.blocks(document, "sh get")[0]), " Ready "); nodes != 14 {
		t.Errorf("%d nodes are ready, want 14", nodes)
	}
	s.write("pod.yaml", s.blocks("README.md", "yaml")[0])
	s.run("kubectl apply -f pod.yaml; " + s.blocks("deploy/examples/README.md", "sh")[0])
	s.run("kubectl wait --for=condition=PodScheduled pods --all --timeout=10m")
	must.Do(t, syscall.Kill(-up.Process.Pid, syscall.SIGINT))
	if err := up.Wait(); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
	s.run(s.blocks(document, "sh two")[0])
	s.write("config.yaml", s.blocks("docs/scheduler.md", "yaml file=config.yaml")[0])
	s.run("pinfold-local up --detach --nodes host --scheduler-config config.yaml")
}

// TestChart executes the commands of the chart's README.md on a cluster of simulated nodes, on
// which pods run at once. What the chart installs is removed from it before. The chart takes the
// values of docs/monitoring.md, too.
func TestChart(t *testing.T) {
	const document = "deploy/chart/README.md"
	s := newShell(t, "pinfold-local")
	helm := must.Get(need.Program("helm4"))(t)
	s.kubectl()
	defer s.down()
	s.env = append(s.env, "NODE=host-0", "HOME="+s.dir)
	s.run("ln -s " + helm + " .local/bin/helm; pinfold-local up --detach --nodes host=2")
	s.run("kubectl delete namespace pinfold-system; kubectl delete validatingadmissionpolicies,validatingadmissionpolicybindings,mutatingadmissionpolicies,mutatingadmissionpolicybindings --all")
	s.write("pools.yaml", s.blocks(document, "yaml file=pools.yaml")[0])
	for _, info := range []string{"sh namespace", "sh install", "sh pools", "sh second", "sh manifests"} {
		for _, script := range s.blocks(document, info) {
			s.run(script)
		}
	}
	s.write("monitoring.yaml", s.blocks("docs/monitoring.md", "yaml file=monitoring.yaml")[0])
	contains(t, s.run("helm template deploy/chart --set image.registry=registry.example.com/pinfold --values monitoring.yaml"),
		"kind: ServiceMonitor", "kind: PrometheusRule", "release: prometheus", "grafana_dashboard")
}

// kubectl uses the cluster of pinfold-local.
func (s *shell) kubectl() {
	s.Helper()
	s.run("mkdir -p .local/bin; ln -s " + must.Get(need.Program("kubectl"))(s) + " .local/bin/kubectl")
	s.env = append(s.env, "PATH="+filepath.Join(s.dir, ".local/bin")+":"+strings.TrimPrefix(s.env[0], "PATH="),
		"KUBECONFIG="+filepath.Join(s.dir, ".pinfold/kubeconfig"))
}

// down stops the clusters that run.
func (s shell) down() {
	s.run("for dir in .pinfold one two; do [ ! -d $dir ] || pinfold-local down --data-dir $dir; done")
}
