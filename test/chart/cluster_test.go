package chart

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	client "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/agent/uninstall"
	"pinfold.dev/pinfold/deploy"
	"pinfold.dev/pinfold/kube/admission"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/local/localcluster"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
	"pinfold.dev/pinfold/test/wait"
)

// controlPlane is a local cluster with a stock scheduler and without nodes.
type controlPlane struct {
	*localcluster.Cluster
	client  client.Interface
	objects dynamic.Interface
	mapper  meta.RESTMapper
}

// started starts the control plane for the tests of this program that need one. TestMain stops it.
var started = sync.OnceValues(func() (c controlPlane, err error) {
	if temporary, err = os.MkdirTemp("", "pinfold-chart-test-"); err != nil {
		return c, err
	}
	if c, err = start(filepath.Join(temporary, "data"), ""); err == nil {
		stop = c.Stop
	}
	return c, err
})

// start starts a control plane that emulates a version of Kubernetes; "" is the newest.
func start(dir, kubernetes string) (c controlPlane, err error) {
	program, err := need.Program("pinfold-local")
	if err != nil {
		return c, err
	}
	config := localcluster.Config{Executable: program, Dir: dir, Kubernetes: kubernetes}
	if c.Cluster, err = localcluster.Start(context.Background(), config); err != nil {
		return c, err
	}
	if c.client, err = client.NewForConfig(c.RESTConfig()); err != nil {
		return c, err
	}
	c.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.client.Discovery()))
	c.objects, err = dynamic.NewForConfig(c.RESTConfig())
	return c, err
}

// temporary is the directory of the control plane, and stop stops it.
var (
	temporary string
	stop      = func() error { return nil }
)

// finish stops the control plane if it was started.
func finish() error {
	err := stop()
	if temporary != "" {
		err = errors.Join(err, os.RemoveAll(temporary))
	}
	return err
}

func begin(t *testing.T) controlPlane {
	t.Helper()
	need.This(t, "a local cluster")
	return must.Get(started())(t)
}

// install returns the arguments that install the chart with values.
func (c controlPlane) install(t *testing.T, values string, more ...string) []string {
	t.Helper()
	return append([]string{"install", release, chartDir, "--namespace", namespace, "--set", registry,
		"--values", valuesFile(t, values), "--kubeconfig", c.Kubeconfig()}, more...)
}

// of returns the API for an object.
func (c controlPlane) of(object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := object.GroupVersionKind()
	mapping, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return c.objects.Resource(mapping.Resource), nil
	}
	return c.objects.Resource(mapping.Resource).Namespace(object.GetNamespace()), nil
}

// ofOperator reports whether an object is for the Prometheus operator, whose kinds this cluster
// does not have.
func ofOperator(object *unstructured.Unstructured) bool {
	return object.GroupVersionKind().Group == "monitoring.coreos.com"
}

// TestServerAcceptsObjects sends all rendered objects to the API server, which checks them without
// storing them.
func TestServerAcceptsObjects(t *testing.T) { begin(t).acceptsObjects(t) }

func (c controlPlane) acceptsObjects(t *testing.T) {
	definition := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict(deploy.NodeTopology, &definition.Object); err != nil {
		t.Fatal(err)
	}
	for name, values := range allValues(t) {
		t.Run(name, func(t *testing.T) {
			for _, object := range append(documents(t, render(t, values)), definition) {
				what := object.GetKind() + " " + object.GetName()
				objects, err := c.of(object)
				if ofOperator(object) {
					if !meta.IsNoMatchError(err) {
						t.Errorf("%s: %v", what, err)
					}
					continue
				}
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				text := must.Get(object.MarshalJSON())(t)
				got, err := objects.Patch(t.Context(), object.GetName(), "application/apply-patch+yaml", text, metav1.PatchOptions{
					FieldManager: "test", Force: new(true), DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
				if err != nil {
					t.Errorf("%s: %v", what, err)
				} else if got.GetName() != object.GetName() {
					t.Errorf("%s: the server returns %s", what, got.GetName())
				}
			}
		})
	}
}

// TestLifeOfARelease installs, upgrades, rolls back and removes the chart with each version of Helm.
func TestLifeOfARelease(t *testing.T) {
	c := begin(t)
	for _, version := range []string{helm3, helm4} {
		t.Run(version, func(t *testing.T) {
			run := func(args ...string) string {
				t.Helper()
				return must.Get(helm(t, version, append(args, "--namespace", namespace, "--kubeconfig", c.Kubeconfig())...))(t)
			}
			run(c.install(t, "")...)
			t.Cleanup(func() { c.uninstall(t, version, release, namespace) })
			golden.Compare(t, "testdata/notes-secondary.txt", notes(run("get", "notes", release)))
			policy := func(want string) {
				t.Helper()
				set := must.Get(c.client.AppsV1().DaemonSets(namespace).Get(t.Context(), "pinfold-agent", metav1.GetOptions{}))(t)
				if args := strings.Join(set.Spec.Template.Spec.Containers[0].Args, " "); !strings.Contains(args, "--burst-policy="+want) {
					t.Errorf("after the change the agent's arguments are %s", args)
				}
			}
			policy("none")
			if _, err := c.client.AdmissionregistrationV1().MutatingAdmissionPolicies().Get(t.Context(), admission.RequestsName, metav1.GetOptions{}); err != nil {
				t.Errorf("the API server raises requests, and Helm does not use that: %v", err)
			}
			run("upgrade", release, chartDir, "--reuse-values", "--set", "agent.burst.policy=auto,scheduler.mode=default")
			policy("auto")
			c.raises(t, "other")
			golden.Compare(t, "testdata/notes-default.txt", notes(run("get", "notes", release)))
			run("rollback", release, "1")
			policy("none")
			c.failsToUninstall(t, version)
			policy("none")
			run("rollback", release, "3")
			run("upgrade", release, chartDir, "--reuse-values", "--set", "agent.burst.policy=auto")
			policy("auto")
		})
	}
}

// failsToUninstall uninstalls the release while a node is down. No kubelet could run the Job, so this
// does, with its rights.
func (c controlPlane) failsToUninstall(t *testing.T, version string) {
	t.Helper()
	if _, err := helm(t, version, "uninstall", release, "--timeout=1s", "--namespace", namespace, "--kubeconfig", c.Kubeconfig()); err == nil {
		t.Fatal("a node that is down was cleaned up")
	}
	const down = "down"
	nodes := c.client.CoreV1().Nodes()
	must.Get(nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: down, Labels: map[string]string{corev1.LabelOSStable: "linux"}}}, metav1.CreateOptions{}))(t)
	defer func() { must.Do(t, nodes.Delete(t.Context(), down, metav1.DeleteOptions{})) }()
	sets := c.client.AppsV1().DaemonSets(namespace)
	wait.Until(t, "the agents' DaemonSet knows the node", func() error {
		set, err := sets.Get(t.Context(), "pinfold-agent", metav1.GetOptions{})
		if err == nil && set.Status.DesiredNumberScheduled == 0 {
			err = fmt.Errorf("its status is %+v", set.Status)
		}
		return err
	})
	job := c.uninstaller(t)
	wait.Until(t, "the Job's rights suffice", func() error {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		err := uninstall.Run(ctx, uninstall.Options{Client: job, DaemonSets: []types.NamespacedName{{Namespace: namespace, Name: "pinfold-agent"}},
			Progress: func(text string) {
				if strings.HasPrefix(text, "0 of 1 node") { // the DaemonSet was changed
					cancel()
				}
			}})
		if err == nil || !strings.HasPrefix(err.Error(), "1 node not cleaned up") || strings.Contains(err.Error(), "forbidden") {
			return fmt.Errorf("of a node that is down it says: %w", err)
		}
		return nil
	})
	events := must.Get(c.client.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=UninstallFailed"}))(t)
	if len(events.Items) == 0 {
		t.Error("no event says that the uninstall has failed")
	}
}

// uninstaller returns a client with the rights of the Job that cleans up.
func (c controlPlane) uninstaller(t *testing.T) client.Interface {
	t.Helper()
	for _, object := range documents(t, render(t, "")) {
		if !strings.HasSuffix(object.GetName(), "uninstall") || object.GetKind() == "Job" {
			continue
		}
		must.Get(must.Get(c.of(object))(t).Apply(t.Context(), object.GetName(), object, metav1.ApplyOptions{FieldManager: "test", Force: true}))(t)
	}
	config := rest.CopyConfig(c.RESTConfig())
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + namespace + ":pinfold-uninstall"}
	return must.Get(client.NewForConfig(config))(t)
}

// raises waits until the API server raises the request of a pod of a scheduler.
func (c controlPlane) raises(t *testing.T, scheduler string) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "asks", Annotations: map[string]string{api.CPUSetSchedulerAnnotation: "true"}},
		Spec: corev1.PodSpec{SchedulerName: scheduler, Containers: []corev1.Container{{Name: "app", Image: "app", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}, Limits: corev1.ResourceList{"cpu": resource.MustParse("4")}}}}}}
	wait.Until(t, "the request of a pod of scheduler "+scheduler+" is raised", func() error {
		stored, err := c.client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && stored.Spec.Containers[0].Resources.Requests.Cpu().Value() != 4 {
			err = fmt.Errorf("it is stored as %+v", stored.Spec.Containers)
		}
		return err
	})
}

// notes returns the notes of a release as both versions of Helm print them.
func notes(text string) string {
	return strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(text), "NOTES:")) + "\n"
}

// uninstall removes a release, and checks that nothing of it remains but the definition of
// NodeTopology. It runs after the test's own context has ended.
// No kubelet could run the Job that cleans up the nodes; TestOperations of test/node has one.
func (c controlPlane) uninstall(t *testing.T, version, release, namespace string) {
	t.Helper()
	at := []string{release, "--namespace", namespace, "--kubeconfig", c.Kubeconfig()}
	manifest, err := helm(t, version, append([]string{"get", "manifest"}, at...)...)
	if err == nil {
		_, err = helm(t, version, append([]string{"uninstall", "--wait", "--no-hooks"}, at...)...)
	}
	if err != nil {
		t.Fatal(err)
	}
	objects := documents(t, manifest)
	if len(objects) < 9 {
		t.Errorf("the release had %d objects", len(objects))
	}
	for _, object := range objects {
		api := must.Get(c.of(object))(t)
		wait.Until(t, object.GetKind()+" "+object.GetName()+" is gone", func() error {
			if _, err := api.Get(context.Background(), object.GetName(), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("it remains (%w)", err)
			}
			return nil
		})
	}
	var definition unstructured.Unstructured
	if err := yaml.Unmarshal(deploy.NodeTopology, &definition.Object); err != nil {
		t.Fatal(err)
	}
	api, err := c.of(&definition)
	if err == nil {
		_, err = api.Get(context.Background(), definition.GetName(), metav1.GetOptions{})
	}
	if err != nil {
		t.Errorf("the definition of NodeTopology: %v", err)
	}
}
