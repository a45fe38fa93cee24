package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/lab/localnode"
	"pinfold.dev/pinfold/lab/supervisor"
)

// scrapeInterval is short, so that a minute has enough values.
const scrapeInterval = "5s"

// monitoring is a Prometheus and a kube-state-metrics.
type monitoring struct {
	url        string // of Prometheus
	dir        string
	supervisor *supervisor.Supervisor
}

// Close ends the programs and removes their files.
func (m *monitoring) Close() {
	m.supervisor.Close()
	_ = os.RemoveAll(m.dir) // a temporary directory
}

// startMonitoring returns when all targets of Prometheus answer.
func (f *Fleet) startMonitoring(ctx context.Context, client kubernetes.Interface) (m *monitoring, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, waitTimeout, fmt.Errorf("gave up after %v", waitTimeout))
	defer cancel()
	m = &monitoring{supervisor: supervisor.New(supervisor.Options{})}
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	if m.dir, err = os.MkdirTemp("", "pinfold-fleet-"); err != nil {
		return nil, fmt.Errorf("create a directory: %w", err)
	}
	free, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	token, err := scraperToken(ctx, client)
	if err != nil {
		return nil, err
	}
	state := fmt.Sprintf("127.0.0.1:%d", free[1])
	config, err := yaml.Marshal(f.scrapeConfig(m.dir, state))
	if err != nil {
		return nil, fmt.Errorf("encode the configuration of Prometheus: %w", err)
	}
	for name, text := range map[string][]byte{"prometheus.yaml": config, tokenFile: []byte(token), caFile: f.Config.CAData} {
		if err := os.WriteFile(filepath.Join(m.dir, name), text, 0o600); err != nil {
			return nil, fmt.Errorf("write the configuration of Prometheus: %w", err)
		}
	}
	m.url = fmt.Sprintf("http://127.0.0.1:%d", free[0])
	for _, spec := range []supervisor.Spec{
		{Name: stateMetrics, Args: []string{"--kubeconfig=" + f.Kubeconfig, "--resources=pods,replicasets,jobs", "--host=127.0.0.1", fmt.Sprintf("--port=%d", free[1]),
			"--telemetry-host=127.0.0.1", fmt.Sprintf("--telemetry-port=%d", free[2])}, Ready: supervisor.Answers(http.DefaultClient, "http://"+state+"/healthz")},
		{Name: prometheus, Args: []string{"--config.file=" + filepath.Join(m.dir, "prometheus.yaml"), "--storage.tsdb.path=" + filepath.Join(m.dir, "data"),
			fmt.Sprintf("--web.listen-address=127.0.0.1:%d", free[0])}, Ready: supervisor.Answers(http.DefaultClient, m.url+"/-/ready")},
	} {
		spec.Path, spec.Dir, spec.Log = filepath.Join(f.Programs, spec.Name), m.dir, filepath.Join(m.dir, spec.Name+".log")
		if err := m.supervisor.Start(spec).WaitReady(ctx); err != nil {
			return nil, err
		}
	}
	return m, m.awaitTargets(ctx)
}

// Files beside the configuration of Prometheus.
const tokenFile, caFile = "token", "ca.crt"

// scrapeConfig returns a configuration of Prometheus with three targets: the kubelet, as an account
// of the cluster, the agent and kube-state-metrics.
func (f *Fleet) scrapeConfig(dir, state string) map[string]any {
	job := func(name, address string, settings map[string]any) map[string]any {
		settings["job_name"] = name
		settings["static_configs"] = []any{map[string]any{"targets": []string{address}}}
		return settings
	}
	return map[string]any{
		"global": map[string]any{"scrape_interval": scrapeInterval, "scrape_timeout": scrapeInterval},
		"scrape_configs": []any{
			job("kubelet", f.Kubelet, map[string]any{
				"scheme": "https", "metrics_path": "/metrics/cadvisor", "honor_labels": true,
				"authorization": map[string]any{"credentials_file": filepath.Join(dir, tokenFile)},
				"tls_config":    map[string]any{"ca_file": filepath.Join(dir, caFile)},
			}),
			job("pinfold-agent", f.Agent, map[string]any{"honor_labels": true, "scrape_native_histograms": true}),
			job("kube-state-metrics", state, map[string]any{"honor_labels": true}),
		},
	}
}

// awaitTargets waits until Prometheus has read all targets.
func (m *monitoring) awaitTargets(ctx context.Context) error {
	client, err := api.NewClient(api.Config{Address: m.url})
	if err != nil {
		return fmt.Errorf("make a client of Prometheus: %w", err)
	}
	err = localnode.Poll(ctx, func() (string, error) {
		targets, err := promv1.NewAPI(client).Targets(ctx)
		if err != nil {
			return localnode.TryAgain(fmt.Errorf("ask for its targets: %w", err))
		}
		for _, target := range targets.Active {
			if target.Health != promv1.HealthGood {
				return fmt.Sprintf("it cannot read %s: %s", target.ScrapeURL, target.LastError), nil
			}
		}
		if len(targets.Active) == 0 {
			return "it has no targets", nil
		}
		return "", nil
	})
	if err != nil {
		return fmt.Errorf("wait until Prometheus reads its targets: %w", err)
	}
	return nil
}

// scraper is the account of Prometheus, and the role with which a kubelet lets it read metrics.
const scraper, scraperNamespace = "prometheus", "monitoring"

// scraperToken creates the account and returns a token for it.
func scraperToken(ctx context.Context, client kubernetes.Interface) (string, error) {
	accounts := client.CoreV1().ServiceAccounts(scraperNamespace)
	_, err1 := localnode.Create(ctx, client.CoreV1().Namespaces(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: scraperNamespace}})
	_, err2 := localnode.Create(ctx, accounts, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: scraper}})
	_, err3 := localnode.Create(ctx, client.RbacV1().ClusterRoles(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: scraper},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes/metrics"}, Verbs: []string{"get"}}}})
	_, err4 := localnode.Create(ctx, client.RbacV1().ClusterRoleBindings(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: scraper},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: scraper, Namespace: scraperNamespace}},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: scraper}})
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return "", fmt.Errorf("create the account of Prometheus: %w", err)
	}
	var request *authenticationv1.TokenRequest
	err := localnode.Answered(ctx, func() (err error) {
		request, err = accounts.CreateToken(ctx, scraper, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return "", fmt.Errorf("request a token for Prometheus: %w", err)
	}
	return request.Status.Token, nil
}

// freePorts returns ports of the loopback address that are free now.
func freePorts(n int) (free []int, err error) {
	for range n {
		listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			return nil, fmt.Errorf("choose a port: %w", err)
		}
		defer listener.Close()
		free = append(free, listener.Addr().(*net.TCPAddr).Port)
	}
	return free, nil
}
