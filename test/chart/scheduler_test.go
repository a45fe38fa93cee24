package chart

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/versions"
	"pinfold.dev/pinfold/lab/localcluster"
	"pinfold.dev/pinfold/lab/simnode"
	"pinfold.dev/pinfold/test/logtext"
	"pinfold.dev/pinfold/test/must"
)

// patience is much longer than any step takes on an idle machine.
const patience = time.Minute

// TestVersions installs the chart on control planes that emulate the older supported versions of
// Kubernetes.
func TestVersions(t *testing.T) {
	for _, version := range versions.Supported() {
		if version == versions.Newest().String() {
			continue // the other tests
		}
		t.Run(version, func(t *testing.T) {
			c := must.Get(start(filepath.Join(t.TempDir(), "data"), version))(t)
			defer func() {
				if err := c.Stop(); err != nil {
					t.Error(err)
				}
			}()
			t.Run("TestServerAcceptsObjects", c.acceptsObjects)
			c.schedules(t)
		})
	}
}

// TestSchedulerWithItsRights runs pinfold-scheduler with the configuration and the service account
// of an installed release, in both modes. It is ready, takes its lease, and binds a pod with signed
// CPUs.
func TestSchedulerWithItsRights(t *testing.T) { begin(t).schedules(t) }

func (c controlPlane) schedules(t *testing.T) {
	for mode, lease := range map[string]string{"secondary": namespace + "/pinfold-scheduler", "default": "kube-system/kube-scheduler"} {
		t.Run(mode, func(t *testing.T) {
			private, public := newKeys(t)
			values := must.Get(yaml.Marshal(map[string]any{
				"agent":     map[string]any{"enabled": false},
				"scheduler": map[string]any{"mode": mode, "replicas": 1, "config": map[string]any{"profiles": []any{map[string]any{"schedulerName": "another"}}}},
				"signing":   map[string]any{"secret": "pinfold-signing-key", "publicKeys": string(public)},
			}))(t)
			must.Get(helm(t, helms[0], c.install(t, string(values))...))(t)
			t.Cleanup(func() { c.uninstall(t, helms[0], release, namespace) })
			c.createNode(t, mode)
			s := c.startScheduler(t, private)
			s.ready(t)
			name := "pinfold-scheduler"
			if mode == "default" {
				name = "" // the API server sets it
				must.Do(t, c.StopComponent(localcluster.Scheduler))
				t.Cleanup(func() {
					if err := c.StartComponent(context.Background(), localcluster.Scheduler); err != nil {
						t.Error(err)
					}
				})
			}
			pod := c.bound(t, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "asks", Annotations: map[string]string{api.CPUSetSchedulerAnnotation: "true"}},
				Spec:       corev1.PodSpec{SchedulerName: name, Containers: []corev1.Container{{Name: "app", Image: "app", Resources: twoCPUs()}}},
			})
			if a, err := api.AllocationOf(pod); err != nil || a == nil || a.Signature == "" {
				t.Errorf("allocation %+v, %v; want a signed one", a, err)
			}
			if got := pod.Annotations[api.SchedulerAnnotation]; !strings.HasPrefix(got, lease+" ") {
				t.Errorf("bound by %q, want the lease %s", got, lease)
			}
			admin := c.RESTConfig()
			admin.Insecure, admin.CAFile, admin.CAData = true, "", nil // the scheduler has signed its certificate itself
			for _, line := range []string{`pinfold_scheduler_bound_pods_total{allocator="scheduler",policy="static"} 1`, `pinfold_build_info{version="`, `leader_election_master_status{`} {
				s.counts(t, admin, line)
			}
			s.debugs(t, admin)
			c.fenced(t, lease)
			if log := s.log.String(); strings.Contains(log, "forbidden") {
				t.Errorf("the scheduler lacks a right:\n%s", log)
			}
		})
	}
}

func twoCPUs() corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("2")}}
}

// newKeys returns a private and a public key in PEM.
func newKeys(t *testing.T) (private, public []byte) {
	t.Helper()
	publicKey, privateKey, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	privateDER, err1 := x509.MarshalPKCS8PrivateKey(privateKey)
	publicDER, err2 := x509.MarshalPKIXPublicKey(publicKey)
	must.Do(t, errors.Join(err1, err2))
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: privateDER}), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: publicDER})
}

// createNode creates a simulated node with its topology until the test ends.
func (c controlPlane) createNode(t *testing.T, name string) {
	t.Helper()
	machine := must.Get(topology.Shape{Packages: 1, NUMAPerPackage: 1, LLCsPerNUMA: 1, CoresPerLLC: 4, ThreadsPerCore: 2}.Build())(t)
	nodes := simnode.Nodes([]simnode.Group{{Name: name, Machine: machine, Count: 1}})
	must.Do(t, simnode.Create(t.Context(), c.RESTConfig(), nodes))
	t.Cleanup(func() {
		if err := c.client.CoreV1().Nodes().Delete(context.Background(), nodes[0].Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	must.Do(t, simnode.WaitReady(t.Context(), c.RESTConfig(), nodes))
}

// schedulerProcess is a running pinfold-scheduler.
type schedulerProcess struct {
	log  logtext.Log
	url  string
	done chan struct{} // closed when it has ended
}

// startScheduler runs pinfold-scheduler as the release's pods would, until the test ends. The files
// of /etc/pinfold are in a temporary directory.
func (c controlPlane) startScheduler(t *testing.T, signingKey []byte) *schedulerProcess {
	t.Helper()
	dir := t.TempDir()
	kubeconfig := c.serviceAccountKubeconfig(t, filepath.Join(dir, "kubeconfig"))
	files := map[string]string{"allocations.key": string(signingKey)}
	for name, key := range map[string]string{"pinfold-scheduler": "scheduler.yaml", "pinfold-allocation-keys": "allocations.pub"} {
		configMap := must.Get(c.client.CoreV1().ConfigMaps(namespace).Get(t.Context(), name, metav1.GetOptions{}))(t)
		files[key] = configMap.Data[key]
	}
	files["scheduler.yaml"] = strings.ReplaceAll(files["scheduler.yaml"], "/etc/pinfold/", dir+"/") + "\nclientConnection: {kubeconfig: " + kubeconfig + "}\n"
	for name, text := range files {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	address := listener.Addr().(*net.TCPAddr)
	must.Do(t, listener.Close())
	s := &schedulerProcess{url: "https://" + address.String(), done: make(chan struct{})}
	command := exec.Command(filepath.Join(bin, "pinfold-scheduler"), "--config="+dir+"/scheduler.yaml", "--bind-address=127.0.0.1", "--logging-format=json",
		fmt.Sprintf("--secure-port=%d", address.Port), "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig)
	command.Stdout, command.Stderr = &s.log, &s.log
	must.Do(t, command.Start())
	go func() { _ = command.Wait(); close(s.done) }()
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		<-s.done
		if t.Failed() {
			t.Log(s.log.String())
		}
	})
	return s
}

// serviceAccountKubeconfig writes a kubeconfig with a token of the scheduler's service account.
func (c controlPlane) serviceAccountKubeconfig(t *testing.T, file string) string {
	t.Helper()
	token, err := c.client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "pinfold-scheduler", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	admin := must.Get(clientcmd.LoadFromFile(c.Kubeconfig()))(t)
	for name := range admin.AuthInfos {
		admin.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	}
	must.Do(t, clientcmd.WriteToFile(*admin, file))
	return file
}

// ready waits until the paths of the probes answer somebody without credentials.
func (s *schedulerProcess) ready(t *testing.T) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // as the kubelet
	for _, path := range []string{"/livez", "/readyz"} {
		last := ""
		for deadline := time.Now().Add(patience); last != "200 OK"; time.Sleep(50 * time.Millisecond) {
			if response, err := client.Get(s.url + path); err != nil {
				last = err.Error()
			} else {
				last = response.Status
				_ = response.Body.Close()
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %s", path, last)
			}
		}
	}
}

// debugs changes the level of the log and gets a profile, as the administrator of the cluster. Nobody else
// may do that. Then it checks that the log is JSON.
func (s *schedulerProcess) debugs(t *testing.T, admin *rest.Config) {
	t.Helper()
	for _, ask := range []struct{ method, path, body string }{{http.MethodPut, "/debug/flags/v", "4"}, {http.MethodGet, "/debug/pprof/goroutine", ""}} {
		for want, config := range map[int]*rest.Config{http.StatusOK: admin, http.StatusForbidden: rest.AnonymousClientConfig(admin)} {
			request := must.Get(http.NewRequestWithContext(t.Context(), ask.method, s.url+ask.path, strings.NewReader(ask.body)))(t)
			response, err := must.Get(rest.HTTPClientFor(config))(t).Do(request)
			if err != nil {
				t.Fatal(err)
			}
			must.Do(t, response.Body.Close())
			if response.StatusCode != want {
				t.Errorf("%s %s: %s, want %d", ask.method, ask.path, response.Status, want)
			}
		}
	}
	valid := 0
	for line := range strings.Lines(s.log.String()) {
		if json.Valid([]byte(line)) {
			valid++
		} else if regexp.MustCompile(`^[IWEF][0-9]{4} `).MatchString(line) {
			t.Errorf("a line of the log is text: %s", line)
		}
	}
	if valid == 0 {
		t.Error("no line of the log is JSON")
	}
}

// counts waits until the metrics, which it reads as the administrator of the cluster, have a line that
// begins like this.
func (s *schedulerProcess) counts(t *testing.T, admin *rest.Config, line string) {
	t.Helper()
	client := must.Get(rest.HTTPClientFor(admin))(t)
	page := ""
	for deadline := time.Now().Add(patience); !strings.Contains(page, "\n"+line); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s is not in the metrics:\n%s", line, page)
		}
		response, err := client.Get(s.url + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		page = response.Status + "\n" + string(must.Get(io.ReadAll(response.Body))(t))
		must.Do(t, response.Body.Close())
	}
}

// bound creates a pod and waits until it has a node. The pod is deleted when the test ends.
func (c controlPlane) bound(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	c.create(t, pod)
	pods := c.client.CoreV1().Pods(metav1.NamespaceDefault)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		got := must.Get(pods.Get(t.Context(), pod.Name, metav1.GetOptions{}))(t)
		if pod = got; pod.Spec.NodeName != "" {
			return pod
		}
	}
	t.Fatalf("pod %s has no node after %v: %+v", pod.Name, patience, pod.Status.Conditions)
	return nil
}

func (c controlPlane) create(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	pods := c.client.CoreV1().Pods(metav1.NamespaceDefault)
	must.Get(pods.Create(t.Context(), pod, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		if err := pods.Delete(context.Background(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
			t.Error(err)
		}
	})
}

// fenced checks that a scheduler that does not hold the lease cannot bind.
func (c controlPlane) fenced(t *testing.T, lease string) {
	t.Helper()
	c.create(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "waits"},
		Spec: corev1.PodSpec{SchedulerName: "none", Containers: []corev1.Container{{Name: "app", Image: "app"}}}})
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: "waits", Annotations: map[string]string{api.SchedulerAnnotation: lease + " nobody"}},
		Target:     corev1.ObjectReference{Kind: "Node", Name: "node"}}
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		// The API server may see the policy and the lease a little later.
		if err = c.client.CoreV1().Pods(metav1.NamespaceDefault).Bind(t.Context(), binding, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
			break
		}
	}
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "another scheduler holds the lease "+lease) {
		t.Errorf("a Binding of a scheduler without the lease: %v", err)
	}
}
