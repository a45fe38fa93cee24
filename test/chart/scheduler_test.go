package chart

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	"pinfold.dev/pinfold/test/need"
	"pinfold.dev/pinfold/test/wait"
)

// TestOldestVersion sends the rendered objects to a control plane that emulates the oldest supported
// version of Kubernetes.
func TestOldestVersion(t *testing.T) {
	need.This(t, "a local cluster")
	c := must.Get(start(filepath.Join(t.TempDir(), "data"), versions.Oldest().String()))(t)
	defer func() { must.Do(t, c.Stop()) }()
	c.acceptsObjects(t)
}

// TestSchedulerWithItsRights runs pinfold-scheduler with the configuration and the service account
// of an installed release, in both modes. It is ready, takes its lease, and binds a pod with signed
// CPUs.
func TestSchedulerWithItsRights(t *testing.T) {
	c := begin(t)
	for mode, lease := range map[string]string{"secondary": namespace + "/pinfold-scheduler", "default": "kube-system/kube-scheduler"} {
		t.Run(mode, func(t *testing.T) {
			private, public := newKeys(t)
			values := must.Get(yaml.Marshal(map[string]any{
				"agent":     map[string]any{"enabled": false},
				"scheduler": map[string]any{"mode": mode, "replicas": 1},
				"signing":   map[string]any{"secret": "pinfold-signing-key", "publicKeys": string(public)},
			}))(t)
			must.Get(helm(t, helm4, c.install(t, string(values))...))(t)
			t.Cleanup(func() { c.uninstall(t, helm4, release, namespace) })
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
	port := must.Get(localcluster.ReservePort())(t)
	t.Cleanup(port.Release)
	s := &schedulerProcess{url: fmt.Sprintf("https://127.0.0.1:%d", port.Number), done: make(chan struct{})}
	command := exec.Command(must.Get(need.Program("pinfold-scheduler"))(t), "--config="+dir+"/scheduler.yaml", "--bind-address=127.0.0.1", "--permit-port-sharing",
		fmt.Sprintf("--secure-port=%d", port.Number), "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig)
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
		wait.Until(t, "the scheduler answers "+path, func() error {
			response, err := client.Get(s.url + path)
			if err != nil {
				return err
			}
			if response.StatusCode != http.StatusOK {
				err = errors.New(response.Status)
			}
			return errors.Join(err, response.Body.Close())
		})
	}
}

// bound creates a pod and waits until it has a node. The pod is deleted when the test ends.
func (c controlPlane) bound(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	c.create(t, pod)
	pods := c.client.CoreV1().Pods(metav1.NamespaceDefault)
	wait.Until(t, "pod "+pod.Name+" is bound", func() error {
		got, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if pod = got; pod.Spec.NodeName == "" {
			return fmt.Errorf("it waits: %+v", pod.Status.Conditions)
		}
		return nil
	})
	return pod
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
	wait.Until(t, "a scheduler without the lease cannot bind", func() error { // the API server may see policy and lease a little later
		err := c.client.CoreV1().Pods(metav1.NamespaceDefault).Bind(t.Context(), binding, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "another scheduler holds the lease "+lease) {
			return nil
		}
		return fmt.Errorf("it is answered with %w", err)
	})
}
