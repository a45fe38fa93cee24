package demo

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"

	"pinfold.dev/pinfold/local/load"
	"pinfold.dev/pinfold/local/localnode"
	"pinfold.dev/pinfold/local/supervisor"
)

// Fleet is what the demo of verdicts needs besides a cluster with a real node.
type Fleet struct {
	Prometheus string        // the server's executable
	Pinfold    string        // that of the command
	Dir        string        // for the server's data
	Metrics    string        // host:port of the agent's
	Time       time.Duration // for which services are under load
	Page       string        // the file of the page
}

// app is a service under a load: batches of requests, each of which takes CPU time.
type app struct {
	name     string
	limit    string
	replicas int32
	work     time.Duration // of a request
	batch    int
	every    time.Duration
	random   bool // the times of batches
}

// apps are a dozen services. Together they use 0.9 CPUs.
func apps() []app {
	const ms = time.Millisecond
	return []app{
		{"web", "200m", 2, 2 * ms, 1, 25 * ms, true},
		{"checkout", "300m", 1, 15 * ms, 3, 500 * ms, false},
		{"search", "150m", 1, 20 * ms, 1, 250 * ms, true},
		{"images", "400m", 1, 50 * ms, 4, 2000 * ms, false},
		{"login", "1", 1, 3 * ms, 1, 200 * ms, true},
		{"mail", "250m", 1, 100 * ms, 1, 5000 * ms, false},
		{"cart", "100m", 1, 3 * ms, 1, 50 * ms, true},
		{"prices", "200m", 1, 12 * ms, 3, 700 * ms, true},
		{"feed", "500m", 1, 4 * ms, 10, 400 * ms, false},
		{"report", "300m", 1, 900 * ms, 1, 10_000 * ms, false},
		{"cache", "300m", 1, ms / 2, 1, 10 * ms, true},
		{"queue", "300m", 1, 25 * ms, 2, 1000 * ms, false},
	}
}

// RunFleet runs a dozen services on this machine, with a Prometheus server that reads what its kubelet
// and its agent count. In the end, the command gives verdicts on their limits, and says who waited behind whom.
func RunFleet(ctx context.Context, config *rest.Config, f Fleet, out Output) error {
	cluster, err := newCluster(config)
	if err != nil {
		return err
	}
	server, end, err := f.serve(ctx, config)
	if err != nil {
		return err
	}
	defer end()
	out.Progress("starting a dozen services")
	pods, err := cluster.startApps(ctx)
	if err != nil {
		return err
	}
	out.Progress(fmt.Sprintf("requests for %v", f.Time))
	if err := sendAll(ctx, pods, f.Time); err != nil {
		return err
	}
	since := func(d time.Duration) string { return fmt.Sprintf("--since=%ds", int64(d.Seconds())) }
	const least = 5 * time.Minute // of rates
	for _, args := range [][]string{
		{"advise", "--prometheus", server, since(f.Time), "--html", f.Page, "--force"},
		{"why", "--cluster", "--prometheus", server, since(max(least, f.Time))},
	} {
		out.Progress(args[0])
		fmt.Fprintf(out.Writer, "$ kubectl pinfold %s\n\n", strings.Join(args, " "))
		command := exec.CommandContext(ctx, f.Pinfold, args...)
		command.Args[0] = "kubectl-pinfold" // the plugin is the same program
		command.Stdout, command.Stderr = out.Writer, os.Stderr
		if err := command.Run(); err != nil {
			return fmt.Errorf("kubectl pinfold %s: %w", args[0], err)
		}
		fmt.Fprintln(out.Writer)
	}
	return nil
}

// startApps starts the services, and returns their pods when all answer.
func (c *cluster) startApps(ctx context.Context) ([]corev1.Pod, error) {
	count := 0
	for _, a := range apps() {
		count += int(a.replicas)
		deployment := a.deployment()
		err := localnode.Answered(ctx, func() error {
			_, err := c.typed.AppsV1().Deployments(namespace).Create(ctx, deployment, metav1.CreateOptions{})
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("create Deployment %s: %w", a.name, err)
		}
	}
	return c.await(ctx, func(pods []corev1.Pod) string {
		for i := range pods {
			if !ready(&pods[i]) {
				return "not ready: " + pods[i].Name + reason(&pods[i])
			}
		}
		if len(pods) != count {
			return fmt.Sprintf("there are %d pods, not %d", len(pods), count)
		}
		return ""
	})
}

func ready(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

const appPort = 8080

func (a app) deployment() *appsv1.Deployment {
	labels := map[string]string{"app": a.name}
	limit := resource.MustParse(a.limit)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: a.name, Namespace: namespace},
		Spec: appsv1.DeploymentSpec{
			Replicas: &a.replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					NodeSelector: map[string]string{corev1.LabelHostname: localnode.Name},
					Containers: []corev1.Container{{
						Name: "app", Image: "nginx", Args: []string{fmt.Sprintf("--listen=:%d", appPort)},
						Resources: corev1.ResourceRequirements{
							Limits:   corev1.ResourceList{corev1.ResourceCPU: limit},
							Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")},
						},
						ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(appPort)}}},
					}},
				},
			},
		},
	}
}

// sendAll sends requests to all pods for a time.
func sendAll(ctx context.Context, pods []corev1.Pod, length time.Duration) error {
	byName := map[string]app{}
	for _, a := range apps() {
		byName[a.name] = a
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	for i := range pods {
		a, address := byName[pods[i].Labels["app"]], pods[i].Status.PodIP
		group.Go(func() {
			sender, err := load.NewHTTP(fmt.Sprintf("http://%s:%d/?cpu=%dus", address, appPort, a.work.Microseconds()))
			if err != nil {
				cancel(err)
				return
			}
			defer sender.Close()
			plan := load.Plan{Batch: a.batch, Every: a.every, Poisson: a.random, Duration: length, Seed: uint64(i), Timeout: 10 * time.Second}
			if !a.random {
				plan.Jitter = a.every / 4
			}
			if _, err := load.Run(ctx, plan, sender.Send); err != nil {
				cancel(fmt.Errorf("send requests to %s: %w", a.name, err))
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}

// serve starts a Prometheus server that reads the metrics of this machine's kubelet, by the API server, and
// of its agent. It returns its URL and a function that ends it.
func (f Fleet) serve(ctx context.Context, config *rest.Config) (url string, end func(), err error) {
	address, err := freeAddress()
	if err != nil {
		return "", nil, err
	}
	files := map[string][]byte{"ca.crt": config.CAData, "client.crt": config.CertData, "client.key": config.KeyData,
		"prometheus.yaml": []byte(f.config(strings.TrimPrefix(config.Host, "https://")))}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(f.Dir, name), text, 0o600); err != nil {
			return "", nil, fmt.Errorf("configure Prometheus: %w", err)
		}
	}
	children := supervisor.New(supervisor.Options{})
	url = "http://" + address
	err = children.Start(supervisor.Spec{
		Name: "prometheus", Path: f.Prometheus, Dir: f.Dir, Log: filepath.Join(f.Dir, "log"),
		Args:  []string{"--config.file=prometheus.yaml", "--storage.tsdb.path=data", "--web.listen-address=" + address},
		Ready: supervisor.Answers(http.DefaultClient, url+"/-/ready"),
	}).WaitReady(ctx)
	if err != nil {
		children.Close()
		return "", nil, err
	}
	return url, children.Close, nil
}

// freeAddress returns an address on which a server can listen.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("choose a port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}

// config returns the server's configuration, given host:port of the API server.
func (f Fleet) config(api string) string {
	return fmt.Sprintf(`global: {scrape_interval: 5s}
scrape_configs:
- job_name: kubelet
  scheme: https
  metrics_path: /api/v1/nodes/%[1]s/proxy/metrics/cadvisor
  tls_config: {ca_file: ca.crt, cert_file: client.crt, key_file: client.key}
  static_configs: [{targets: [%[2]q]}]
- job_name: pinfold-agent
  honor_labels: true
  scrape_native_histograms: true
  static_configs: [{targets: [%[3]q]}]
`, localnode.Name, api, f.Metrics)
}
