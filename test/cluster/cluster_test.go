package cluster

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/local/localcluster"
	"pinfold.dev/pinfold/test/need"
	"pinfold.dev/pinfold/test/wait"
)

// test is one test's view of the cluster. Tests run one after the other and delete their pods, so
// that each has all CPUs.
type test struct {
	*testing.T
	*running
	// home is the namespace of the test's pods. No other test has it, before or after: the simulated
	// kubelet deletes pods by name, and may be late.
	home string
}

// begin begins a test on the shared cluster, or on that of [onVersion].
func begin(t *testing.T) *test {
	t.Helper()
	need.This(t, "a local cluster")
	r := elsewhere
	if r == nil {
		var err error
		if r, err = shared(); err != nil {
			t.Fatal(err)
		}
	}
	return beginOn(t, r)
}

func beginOn(t *testing.T, r *running) *test {
	t.Helper()
	c := &test{T: t, running: r}
	c.home = c.newNamespace(nil)
	return c
}

// notInNames matches what the name of a namespace cannot have.
var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// newNamespace creates a namespace, in which pods can be created, and returns its name. At the
// test's end its pods are gone.
func (c *test) newNamespace(labels map[string]string) string {
	c.Helper()
	name := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(strings.TrimPrefix(c.Name(), "Test")), "-"), "-")
	namespaces := c.client.CoreV1().Namespaces()
	made, err := namespaces.Create(c.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: fmt.Sprintf("%.50s-", name), Labels: labels}}, metav1.CreateOptions{})
	c.must(err)
	c.Cleanup(func() { c.deleteNamespace(made.Name) })
	c.eventually("the account of pods in "+made.Name, func() error {
		_, err := c.client.CoreV1().ServiceAccounts(made.Name).Get(c.Context(), "default", metav1.GetOptions{})
		return err
	})
	return made.Name
}

// deleteNamespace deletes a namespace and waits until its pods are gone. It runs after the test's
// own context has ended.
func (c *test) deleteNamespace(name string) {
	c.Helper()
	ctx := context.Background()
	c.eventually("the namespace is deleted", func() error {
		err := c.client.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // it is being deleted
			return nil
		}
		return err
	})
	c.eventually("pods are deleted", func() error { return c.deletePods(ctx, name) })
}

// deletePods deletes the pods of a namespace, and returns an error while there are some.
func (c *test) deletePods(ctx context.Context, namespace string) error {
	pods := c.client.CoreV1().Pods(namespace)
	if err := pods.DeleteCollection(ctx, *metav1.NewDeleteOptions(0), metav1.ListOptions{}); err != nil {
		return err
	}
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err == nil && len(list.Items) > 0 {
		err = fmt.Errorf("%d pods remain in %s, such as %s on %q", len(list.Items), namespace, list.Items[0].Name, list.Items[0].Spec.NodeName)
	}
	return err
}

// as returns the cluster with the rights of another configuration.
func (c *test) as(config *rest.Config) *running {
	c.Helper()
	r := &running{binary: c.binary, dir: c.dir}
	c.must(r.connect(config))
	return r
}

func (c *test) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// eventually waits until look returns no error. Each look asks the API server, so a slow one is given
// more time.
func (c *test) eventually(what string, look func() error) {
	c.Helper()
	wait.Until(c, what, look)
}

// podAPI is the interface to the pods of the test.
func (c *test) podAPI() typedcorev1.PodInterface { return c.client.CoreV1().Pods(c.home) }

// pods returns the pods in the test's namespace.
func (c *test) pods() ([]corev1.Pod, error) {
	list, err := c.podAPI().List(c.Context(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

func (c *test) pod(name string) *corev1.Pod {
	c.Helper()
	pod, err := c.podAPI().Get(c.Context(), name, metav1.GetOptions{})
	c.must(err)
	return pod
}

// parse reads the manifest of a pod.
func (c *test) parse(manifest string) *corev1.Pod {
	c.Helper()
	var pod corev1.Pod
	c.must(yaml.UnmarshalStrict([]byte(manifest), &pod))
	return &pod
}

// create creates a pod from a manifest.
func (c *test) create(manifest string) {
	c.Helper()
	_, err := c.podAPI().Create(c.Context(), c.parse(manifest), metav1.CreateOptions{})
	c.must(err)
}

// annotate sets an annotation of a pod, as kubectl annotate --overwrite does.
func (c *test) annotate(pod, key, value string) {
	c.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
	_, err := c.podAPI().Patch(c.Context(), pod, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	c.must(err)
}

// bound waits until the pod has a node and returns it.
func (c *test) bound(name string) *corev1.Pod {
	c.Helper()
	return c.boundIn(c.home, name)
}

func (c *test) boundIn(namespace, name string) (pod *corev1.Pod) {
	c.Helper()
	c.eventually("pod "+name+" is bound", func() (err error) {
		if pod, err = c.client.CoreV1().Pods(namespace).Get(c.Context(), name, metav1.GetOptions{}); err == nil && pod.Spec.NodeName == "" {
			err = fmt.Errorf("it waits: %s", waitsFor(pod))
		}
		return err
	})
	return pod
}

// allocation waits until the agent of a bound pod's node has published what it has allocated to the
// pod, and returns that.
func (c *test) allocation(pod *corev1.Pod) (a api.Allocation) {
	c.Helper()
	c.eventually("pod "+pod.Name+" has CPUs", func() error {
		all, err := c.allocations(pod.Spec.NodeName)
		if found, ok := all[pod.UID]; ok {
			a = found
		} else if err == nil {
			err = fmt.Errorf("the agent of %s has allocated %+v", pod.Spec.NodeName, all)
		}
		return err
	})
	return a
}

// allocations returns what the agent of a node has published.
func (c *test) allocations(node string) (api.Allocations, error) {
	obj, err := c.topologies.Get(c.Context(), node, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	_, state, err := nodetopology.ToMachine(obj)
	return state.Allocations, err
}

func waitsFor(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return condition.Message
		}
	}
	return ""
}

// waits waits until the pod's condition and its FailedScheduling event contain a text.
func (c *test) waits(name, text string) {
	c.Helper()
	c.refused(c.home, name, text)
	c.event(name, "FailedScheduling", text)
}

// refused waits until the scheduler says about a pod that it waits, and why.
func (c *test) refused(namespace, name, why string) {
	c.Helper()
	c.eventually("pod "+name+" waits for "+why, func() error {
		pod, err := c.client.CoreV1().Pods(namespace).Get(c.Context(), name, metav1.GetOptions{})
		if err == nil && (pod.Spec.NodeName != "" || !strings.Contains(waitsFor(pod), why)) {
			err = fmt.Errorf("pod %s on %q waits: %.300s", name, pod.Spec.NodeName, waitsFor(pod))
		}
		return err
	})
}

// event waits for an event about a pod.
func (c *test) event(name, reason, text string) {
	c.Helper()
	c.eventOf(c.home, name, reason, text)
}

func (c *test) eventOf(namespace, name, reason, text string) {
	c.Helper()
	c.eventually("event "+reason+" of "+name, func() error {
		list, err := c.client.CoreV1().Events(namespace).List(c.Context(), metav1.ListOptions{
			FieldSelector: "involvedObject.name=" + name + ",reason=" + reason})
		if err != nil {
			return err
		}
		var got []string
		for _, event := range list.Items {
			if strings.Contains(event.Message, text) {
				return nil
			}
			got = append(got, event.Message)
		}
		return fmt.Errorf("the events are\n%s\nand none is\n%s", strings.Join(got, "\n"), text)
	})
}

// runs waits until a pod runs and writes the resources of its containers to its status, as a
// kubelet does. The API server resizes no other pods.
func (c *test) runs(name string) {
	c.Helper()
	c.eventually("pod "+name+" runs", func() error {
		pod, err := c.podAPI().Get(c.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodRunning || len(pod.Status.ContainerStatuses) == 0 {
			return fmt.Errorf("it is %s", pod.Status.Phase)
		}
		for i := range pod.Status.ContainerStatuses {
			pod.Status.ContainerStatuses[i].Resources = &pod.Spec.Containers[i].Resources
		}
		_, err = c.podAPI().UpdateStatus(c.Context(), pod, metav1.UpdateOptions{}) // the simulated kubelet may have changed it
		return err
	})
}

// topology returns the topology that a node has reported.
func (c *test) topology(node string) *nodetopology.NodeTopology {
	c.Helper()
	obj, err := c.topologies.Get(c.Context(), node, metav1.GetOptions{})
	c.must(err)
	return obj
}

func (c *test) machine(node string) (*topology.Machine, nodetopology.State) {
	c.Helper()
	machine, state, err := nodetopology.ToMachine(c.topology(node))
	c.must(err)
	return machine, state
}

// killScheduler kills the scheduler's process and returns without waiting for the next one, which
// leads when the lease of this one has expired.
func (c *test) killScheduler() {
	c.Helper()
	var pid int
	c.eventually("a scheduler runs", func() error {
		state, err := localcluster.ReadState(c.dir)
		if pid = pidOf(state, localcluster.Scheduler); err == nil && pid == 0 {
			err = errors.New("it has no process")
		}
		return err
	})
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		c.Fatal(err)
	}
}
