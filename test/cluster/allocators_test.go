package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	resourcehelper "k8s.io/component-helpers/resource"

	"pinfold.dev/pinfold/agent"
	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptest"
)

// allocator is a node with an agent, which is a process. The kubelet and the runtime are the test.
type allocator struct {
	*test
	*cgrouptest.Files
	node    string
	options agentOptions
	agent   *exec.Cmd
	running map[types.UID]*corev1.Pod // with the resources that the kubelet has allocated
}

// agentOptions are those of an agent's process, in agentVariable. They are all that [TestMain] runs
// then.
type agentOptions struct{ Node, Root, RunDir, Kubeconfig string }

const agentVariable = "PINFOLD_TEST_AGENT"

// runAgentProcess runs an agent until it is killed.
func runAgentProcess(text string) error {
	var o agentOptions
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return err
	}
	var own running
	if err := own.connect(config); err != nil {
		return err
	}
	return agent.Run(context.Background(), agent.Options{
		Config: control.Config{NodeName: o.Node, MinShared: api.DefaultMinSharedCPUs},
		Root:   o.Root, RunDir: o.RunDir, Client: own.client, Topologies: own.topologies,
		Kubelet: func(context.Context) (control.Kubelet, error) { return control.Kubelet{CPUManagerPolicy: "none"}, nil },
		Period:  200 * time.Millisecond, APIEvery: time.Second, RetryAfter: 100 * time.Millisecond,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
}

// newAllocator creates a node, and starts its agent.
func (c *test) newAllocator(name string) *allocator {
	c.Helper()
	a := &allocator{test: c, Files: cgrouptest.NewFiles(c), node: name, running: map[types.UID]*corev1.Pod{}, options: agentOptions{
		Node: name, RunDir: c.TempDir(), Kubeconfig: c.kubeconfig()}}
	a.options.Root = a.Root
	c.createReadyNode(name)
	a.start()
	c.Cleanup(a.kill)
	c.eventually("the topology of "+name, func() error {
		_, err := c.topologies.Get(c.Context(), name, metav1.GetOptions{})
		return err
	})
	return a
}

func (a *allocator) start() {
	a.Helper()
	text, err := json.Marshal(a.options)
	a.must(err)
	program, err := os.Executable()
	a.must(err)
	a.agent = exec.Command(program)
	a.agent.Env = append(os.Environ(), agentVariable+"="+string(text))
	a.agent.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	a.agent.Stdout, a.agent.Stderr = os.Stdout, os.Stderr
	a.must(a.agent.Start())
}

func (a *allocator) kill() { _, _ = a.agent.Process.Kill(), a.agent.Wait() }

// restart kills the agent and starts the next one. This forgets nothing that containers do not have
// yet: nothing else shows these CPUs.
func (a *allocator) restart(forgets bool) error {
	if err := a.agent.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	forgets = forgets && a.agrees() == nil
	a.kill()
	if forgets {
		if err := os.Remove(filepath.Join(a.options.RunDir, "allocations.json")); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	a.start()
	return nil
}

// kubelet does what a kubelet and a runtime do. While the API server is down, they do nothing.
func (a *allocator) kubelet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	list, err := a.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + a.node})
	if err != nil {
		return nil // a component was killed
	}
	slices.SortFunc(list.Items, func(x, y corev1.Pod) int { return x.CreationTimestamp.Compare(y.CreationTimestamp.Time) })
	there := map[types.UID]bool{}
	for i := range list.Items {
		pod := &list.Items[i]
		there[pod.UID] = pod.DeletionTimestamp == nil && !api.HasEnded(pod)
	}
	for uid := range a.running {
		if !there[uid] {
			a.Remove(groupOf(uid))
			delete(a.running, uid)
		}
	}
	for i := range list.Items {
		pod := &list.Items[i]
		if there[pod.UID] {
			err = a.serve(ctx, pod)
		} else if pod.DeletionTimestamp != nil {
			err = a.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name,
				metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
		}
		if err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && !apierrors.IsInternalError(err) &&
			apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
			return err
		}
	}
	return nil
}

func requestOf(pod *corev1.Pod) int64 {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	return requests.Cpu().MilliValue()
}

// requested returns what the pods that run request together.
func (a *allocator) requested() (sum int64) {
	for _, pod := range a.running {
		sum += requestOf(pod)
	}
	return sum
}

func groupOf(uid types.UID) string { return "/kubepods/burstable/pod" + string(uid) }

// serve admits and starts a pod, or carries out its resize, if its requests fit, and reports it.
func (a *allocator) serve(ctx context.Context, pod *corev1.Pod) error {
	runs := a.running[pod.UID]
	requested := a.requested() + requestOf(pod)
	if runs != nil {
		requested -= requestOf(runs)
	}
	switch fits := requested <= 8000; {
	case runs == nil && !fits:
		pod.Status.Phase, pod.Status.Reason = corev1.PodFailed, "OutOfcpu"
		_, err := a.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		return err
	case runs == nil:
		a.Group(groupOf(pod.UID), "-1")
		for i, c := range pod.Spec.Containers {
			a.Group(groupOf(pod.UID)+"/"+idOf(pod.UID, i), fmt.Sprint(100*c.Resources.Limits.Cpu().MilliValue()))
		}
		runs = pod.DeepCopy()
	case fits && !equality.Semantic.DeepEqual(runs.Spec.Containers, pod.Spec.Containers):
		for i, c := range pod.Spec.Containers {
			a.Write(filepath.Join("sys/fs/cgroup/cpu", groupOf(pod.UID), idOf(pod.UID, i), "cpu.cfs_quota_us"), fmt.Sprint(100*c.Resources.Limits.Cpu().MilliValue()))
		}
		runs = pod.DeepCopy()
	}
	a.running[pod.UID] = runs
	status := corev1.PodStatus{Phase: corev1.PodRunning, ObservedGeneration: pod.Generation}
	for i, c := range runs.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, ContainerID: "containerd://" + idOf(pod.UID, i),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, Resources: &c.Resources, AllocatedResources: c.Resources.Requests})
	}
	if pod.Status.Phase == status.Phase && equality.Semantic.DeepEqual(pod.Status.ContainerStatuses, status.ContainerStatuses) {
		return nil
	}
	pod.Status.Phase, pod.Status.ContainerStatuses, pod.Status.ObservedGeneration = status.Phase, status.ContainerStatuses, status.ObservedGeneration
	_, err := a.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

func idOf(uid types.UID, container int) string {
	return strings.ReplaceAll(string(uid), "-", "") + fmt.Sprintf("%032x", container)
}

// agrees returns an error until the groups of each pod have the CPUs that were allocated to it, and no
// groups of another pod do.
func (a *allocator) agrees() error {
	allocations, err := a.allocations(a.node)
	if err != nil {
		return err
	}
	for uid, allocated := range allocations {
		for other, pod := range a.running {
			for i, c := range pod.Spec.Containers {
				cpus, err := cpuset.Parse(a.CPUs(groupOf(other) + "/" + idOf(other, i)))
				if err != nil {
					return err // the agent writes this file, which the kernel would replace at once
				}
				of := slices.IndexFunc(allocated.Containers, func(one api.ContainerAllocation) bool { return one.Name == c.Name })
				if other == uid && of >= 0 && !allocated.Containers[of].CPUs.IsEmpty() && cpus != allocated.Containers[of].CPUs {
					return fmt.Errorf("%s: container %s of %s has CPUs %s, and was allocated %s", a.node, c.Name, uid, cpus, allocated.Containers[of].CPUs)
				}
				if all := allocated.CPUs(); other != uid && cpus.Intersects(all) {
					return fmt.Errorf("%s: container %s of %s has CPUs %s, of which %s were allocated to %s", a.node, c.Name, other, cpus, all, uid)
				}
			}
		}
	}
	return nil
}
