package chart

import (
	"context"
	"crypto/tls"
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
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/versions"
	"pinfold.dev/pinfold/local/localcluster"
	"pinfold.dev/pinfold/local/simnode"
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
// of an installed release, in both modes. It is ready, takes its lease, and binds a pod that asks.
func TestSchedulerWithItsRights(t *testing.T) {
	c := begin(t)
	for mode, lease := range map[string]string{"secondary": namespace + "/pinfold-scheduler", "default": "kube-system/kube-scheduler"} {
		t.Run(mode, func(t *testing.T) {
			own := map[string]any{}
			if mode == "default" {
				must.Do(t, yaml.Unmarshal([]byte(clusterConfiguration), &own))
			}
			values := must.Get(yaml.Marshal(map[string]any{
				"agent":     map[string]any{"enabled": false},
				"scheduler": map[string]any{"mode": mode, "replicas": 1, "configuration": own},
			}))(t)
			must.Get(helm(t, helm4, c.install(t, string(values))...))(t)
			t.Cleanup(func() { c.uninstall(t, helm4, release, namespace) })
			c.createNode(t, mode)
			s := c.startScheduler(t)
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
			if pod.Spec.NodeName == "" {
				t.Error("the pod is not bound")
			}
			where := must.Get(cache.ParseObjectName(lease))(t)
			held := must.Get(c.client.CoordinationV1().Leases(where.Namespace).Get(t.Context(), where.Name, metav1.GetOptions{}))(t)
			if api.VersionOf(held) == "" {
				t.Errorf("the lease %s is held by %v", lease, held.Spec.HolderIdentity)
			}
			if log := s.log.String(); strings.Contains(log, "forbidden") {
				t.Errorf("the scheduler lacks a right:\n%s", log)
			}
		})
	}
}

// clusterConfiguration is that of a scheduler which the release replaces.
const clusterConfiguration = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false, leaseDuration: 20s, resourceName: mine}
parallelism: 8
profiles:
- schedulerName: default-scheduler
  percentageOfNodesToScore: 100
  plugins:
    multiPoint: {disabled: [{name: ImageLocality}]}
    filter: {enabled: [{name: NodePorts}, {name: NodeName}]}
    score: {disabled: [{name: PodTopologySpread}]}
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated}}
- schedulerName: packed
`

func twoCPUs() corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("2")}}
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
func (c controlPlane) startScheduler(t *testing.T) *schedulerProcess {
	t.Helper()
	dir := t.TempDir()
	kubeconfig := c.serviceAccountKubeconfig(t, filepath.Join(dir, "kubeconfig"))
	configMap := must.Get(c.client.CoreV1().ConfigMaps(namespace).Get(t.Context(), "pinfold-scheduler", metav1.GetOptions{}))(t)
	text := configMap.Data["scheduler.yaml"] + "\nclientConnection: {kubeconfig: " + kubeconfig + "}\n"
	must.Do(t, os.WriteFile(filepath.Join(dir, "scheduler.yaml"), []byte(text), 0o600))
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
