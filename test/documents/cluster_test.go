package documents

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pinfold.dev/pinfold/test/must"
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
	s.run(`timeout 2m sh -c 'until pinfold-local status | grep -q "(ready)"; do sleep 0.2; done' 2>/dev/null`)
	if nodes := strings.Count(s.run(s.blocks(document, "sh get")[0]), " Ready "); nodes != 14 {
		t.Errorf("%d nodes are ready, want 14", nodes)
	}
	s.write("pod.yaml", s.blocks("README.md", "yaml")[0])
	s.run("kubectl apply -f pod.yaml; " + s.blocks("deploy/examples/README.md", "sh")[0])
	s.run("kubectl wait --for=condition=PodScheduled pods --all --timeout=2m")
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
	s := newShell(t, "pinfold-local", "helm4")
	s.kubectl()
	defer s.down()
	s.env = append(s.env, "NODE=host-0", "HOME="+s.dir)
	s.run("ln -s $REPOSITORY/bin/helm4 .local/bin/helm; pinfold-local up --detach --nodes host=2")
	s.run("kubectl delete namespace pinfold-system; kubectl delete validatingadmissionpolicies,validatingadmissionpolicybindings,mutatingadmissionpolicies,mutatingadmissionpolicybindings --all")
	s.write("pools.yaml", s.blocks(document, "yaml file=pools.yaml")[0])
	for _, info := range []string{"sh namespace", "sh install", "sh pools", "sh second", "sh manifests"} {
		for _, script := range s.blocks(document, info) {
			s.run(script)
		}
	}
	s.write("scheduler.yaml", s.blocks(document, "yaml file=scheduler.yaml")[0])
	contains(t, s.run("helm template deploy/chart --set image.registry=registry.example.com/pinfold,scheduler.mode=default --values scheduler.yaml"),
		"- name: ImageLocality", "schedulerName: default-scheduler", "schedulerName: packed")
	s.write("monitoring.yaml", s.blocks("docs/monitoring.md", "yaml file=monitoring.yaml")[0])
	s.write("alerts.yaml", s.blocks("docs/monitoring.md", "yaml file=alerts.yaml")[0])
	contains(t, s.run("helm template deploy/chart --set image.registry=registry.example.com/pinfold --values monitoring.yaml --values alerts.yaml"),
		"kind: ServiceMonitor", "kind: PrometheusRule", "release: prometheus", "grafana_dashboard", "for: 30m", "cpu_throttled:ratio > 0.2")
}

// kubectl builds kubectl, which uses the cluster of pinfold-local.
func (s *shell) kubectl() {
	s.Helper()
	s.run("mkdir -p .local/bin; to=$PWD/.local/bin; cd $REPOSITORY; CGO_ENABLED=0 GOFLAGS='-trimpath -gcflags=all=-dwarf=false -tags=grpcnotrace' go build -o $to k8s.io/kubernetes/cmd/kubectl")
	s.env = append(s.env, "PATH="+filepath.Join(s.dir, ".local/bin")+":"+strings.TrimPrefix(s.env[0], "PATH="),
		"KUBECONFIG="+filepath.Join(s.dir, ".pinfold/kubeconfig"))
}

// down stops the clusters that run.
func (s shell) down() {
	s.run("for dir in .pinfold one two; do [ ! -d $dir ] || pinfold-local down --data-dir $dir; done")
}
