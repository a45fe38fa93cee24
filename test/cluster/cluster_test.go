package cluster

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/lab/localcluster"
)

// patience is much longer than any operation takes on an idle machine.
const patience = 60 * time.Second

// test is one test's view of the cluster. Tests run one after the other and delete their pods, so
// that each has all CPUs.
type test struct {
	*testing.T
	*running
}

func begin(t *testing.T) *test {
	c := &test{t, shared}
	t.Cleanup(c.deletePods)
	return c
}

// as returns the cluster with the rights of another configuration.
func (c *test) as(config *rest.Config) *running {
	c.Helper()
	r, err := connectAs(c.binary, c.dir, config)
	c.must(err)
	return r
}

func (c *test) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// eventually waits until problem returns "".
func (c *test) eventually(problem func() string) {
	c.Helper()
	c.eventuallyWithin(patience, problem)
}

func (c *test) eventuallyWithin(patience time.Duration, problem func() string) {
	c.Helper()
	last := ""
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(25 * time.Millisecond) {
		if last = problem(); last == "" {
			return
		}
	}
	c.Fatalf("after %v: %s", patience, last)
}

func (c *test) pods() []corev1.Pod {
	c.Helper()
	list, err := c.client.CoreV1().Pods("default").List(c.Context(), metav1.ListOptions{})
	c.must(err)
	return list.Items
}

func (c *test) pod(name string) *corev1.Pod {
	c.Helper()
	pod, err := c.client.CoreV1().Pods("default").Get(c.Context(), name, metav1.GetOptions{})
	c.must(err)
	return pod
}

// deletePods deletes all pods. It runs after the test's own context has ended.
func (c *test) deletePods() {
	ctx, now := context.Background(), int64(0)
	all := metav1.ListOptions{}
	if err := c.client.AppsV1().Deployments("default").DeleteCollection(ctx, metav1.DeleteOptions{}, all); err != nil {
		c.Error(err)
	}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err := c.client.CoreV1().Pods("default").DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, all); err != nil {
			c.Error(err)
		}
		if list, err := c.client.CoreV1().Pods("default").List(ctx, all); err == nil && len(list.Items) == 0 {
			return
		}
	}
	c.Error("some pods remain")
}

// create creates a pod from a manifest.
func (c *test) create(manifest string) *corev1.Pod {
	c.Helper()
	return c.createIn("default", manifest)
}

func (c *test) createIn(namespace, manifest string) *corev1.Pod {
	c.Helper()
	var pod corev1.Pod
	c.must(yaml.UnmarshalStrict([]byte(manifest), &pod))
	made, err := c.client.CoreV1().Pods(namespace).Create(c.Context(), &pod, metav1.CreateOptions{})
	c.must(err)
	return made
}

// annotate sets an annotation of a pod, as kubectl annotate --overwrite does.
func (c *test) annotate(pod, key, value string) {
	c.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
	_, err := c.client.CoreV1().Pods("default").Patch(c.Context(), pod, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	c.must(err)
}

// bound waits until the pod has a node and returns it.
func (c *test) bound(name string) *corev1.Pod {
	c.Helper()
	return c.boundIn("default", name)
}

func (c *test) boundIn(namespace, name string) (pod *corev1.Pod) {
	c.Helper()
	c.eventually(func() string {
		var err error
		pod, err = c.client.CoreV1().Pods(namespace).Get(c.Context(), name, metav1.GetOptions{})
		if c.must(err); pod.Spec.NodeName == "" {
			return fmt.Sprintf("pod %s waits: %s", name, waitsFor(pod))
		}
		return ""
	})
	return pod
}

// allocation returns the allocation of a bound pod.
func (c *test) allocation(pod *corev1.Pod) *api.Allocation {
	c.Helper()
	a, err := api.AllocationOf(pod)
	c.must(err)
	if a == nil {
		c.Fatalf("pod %s on %s has no allocation: %v", pod.Name, pod.Spec.NodeName, pod.Annotations)
	}
	return a
}

// end marks a running pod as ended. The error is Invalid if the pod does not run yet: the simulated
// kubelet marks a bound pod as running whatever phase it has by then, and would revive the pod.
func (c *test) end(ctx context.Context, pod string) error {
	_, err := c.client.CoreV1().Pods("default").Patch(ctx, pod, types.JSONPatchType, []byte(
		`[{"op":"test","path":"/status/phase","value":"Running"},{"op":"replace","path":"/status/phase","value":"Succeeded"}]`),
		metav1.PatchOptions{}, "status")
	return err
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
	c.eventually(func() string {
		pod := c.pod(name)
		if pod.Spec.NodeName != "" {
			return fmt.Sprintf("pod %s is bound to %s", name, pod.Spec.NodeName)
		}
		if got := waitsFor(pod); !strings.Contains(got, text) {
			return fmt.Sprintf("pod %s waits for\n%s\nand not for\n%s", name, got, text)
		}
		return ""
	})
	c.event(name, "FailedScheduling", text)
}

// event waits for an event about a pod.
func (c *test) event(name, reason, text string) {
	c.Helper()
	c.eventually(func() string {
		list, err := c.client.CoreV1().Events("default").List(c.Context(), metav1.ListOptions{
			FieldSelector: "involvedObject.name=" + name + ",reason=" + reason})
		c.must(err)
		var got []string
		for _, event := range list.Items {
			if strings.Contains(event.Message, text) {
				return ""
			}
			got = append(got, event.Message)
		}
		return fmt.Sprintf("the %s events about pod %s are\n%s\nand none is\n%s", reason, name, strings.Join(got, "\n"), text)
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

// checkBooks derives every node's books from its pods only. If all pods were placed by the
// scheduler, there are no conflicts, and every allocation is complete.
func (c *test) checkBooks() {
	c.Helper()
	c.look(map[string]*bookedNode{})
}

// killScheduler kills the scheduler's process and returns without waiting for the next one.
func (c *test) killScheduler() {
	c.Helper()
	if err := syscall.Kill(c.schedulerPID(), syscall.SIGKILL); err != nil && err != syscall.ESRCH {
		c.Fatal(err)
	}
}

// schedulerPID waits until a scheduler runs.
func (c *test) schedulerPID() (pid int) {
	c.Helper()
	c.eventually(func() string {
		state, err := localcluster.ReadState(c.dir)
		if err != nil {
			return err.Error()
		}
		scheduler, ok := state.Component("kube-scheduler")
		if pid = scheduler.PID; !ok || pid == 0 {
			return "no scheduler runs"
		}
		return ""
	})
	return pid
}
