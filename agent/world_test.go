package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/kube/nodetopology/nodetopologytest"
	"pinfold.dev/pinfold/kube/nri"
	"pinfold.dev/pinfold/test/logtext"
	"pinfold.dev/pinfold/test/wait"
)

// world is the environment of an agent under test: an API server in memory, a kubelet, and the
// cgroups below a root directory.
type world struct {
	t                      *testing.T
	client                 *fake.Clientset
	topologies             *nodetopologytest.Fake
	kubelet                control.Kubelet
	config                 control.Config
	period, sampleInterval time.Duration
	root                   string
	runDir                 string
	listen                 string
	leases                 string // namespace
	runtime                func(context.Context, nri.Options, nri.Handler)
	log                    *logtext.Log
	more                   func(*Options) // sets others, if not nil

	gone atomic.Bool // the API server fails every request

	mu         sync.Mutex
	static     map[ledger.PodID]types.NamespacedName
	kubeletErr error
}

const nodeName = "n1"

func newWorld(t *testing.T, pods ...*corev1.Pod) *world {
	t.Helper()
	w := makeWorld(pods...)
	w.t, w.runDir = t, t.TempDir()
	return w
}

func makeWorld(pods ...*corev1.Pod) *world {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName, UID: "uid-n1"}, Status: corev1.NodeStatus{
		Capacity:    corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")},
		Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")},
	}}
	objects := []runtime.Object{node}
	for _, p := range pods {
		objects = append(objects, p)
	}
	w := &world{client: fake.NewClientset(objects...), topologies: nodetopologytest.NewFake(),
		kubelet: control.Kubelet{CPUManagerPolicy: "none"}, config: control.Config{NodeName: nodeName},
		period: 50 * time.Millisecond, log: &logtext.Log{}}
	gone := func(clienttesting.Action) (bool, runtime.Object, error) {
		if !w.gone.Load() {
			return false, nil, nil
		}
		return true, nil, apierrors.NewInternalError(errors.New("connection refused"))
	}
	w.client.PrependReactor("*", "*", gone)
	w.topologies.PrependReactor("*", "*", gone)
	return w
}

func (w *world) options() Options {
	socket := ""
	if w.runtime != nil {
		socket = "given"
	}
	options := Options{
		Socket: socket, Config: w.config, Root: w.root, RunDir: w.runDir,
		Client: w.client, Topologies: w.topologies, Runtime: w.runtime,
		Kubelet: func(context.Context) (control.Kubelet, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.kubelet, w.kubeletErr
		},
		StaticPods: func(context.Context) (map[ledger.PodID]types.NamespacedName, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.static, w.kubeletErr
		},
		SampleInterval: w.sampleInterval, Period: w.period, MinInterval: time.Millisecond, SampleEvery: 50 * time.Millisecond,
		APIEvery: 50 * time.Millisecond, RetryAfter: 20 * time.Millisecond, Listen: w.listen, HealthListen: w.listen,
		LeaseNamespace: w.leases, LeaseEvery: 30 * time.Millisecond, Version: testVersion,
		Log: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if w.more != nil {
		w.more(&options)
	}
	return options
}

// start runs an agent until stop is called or the test ends.
func (w *world) start() (stop func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, w.options()) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				w.t.Errorf("the agent ended: %v", err)
			}
		})
	}
	w.t.Cleanup(func() {
		stop()
		if w.t.Failed() {
			w.t.Log("the agent's log:\n" + w.log.String())
		}
	})
	return stop
}

// eventually waits until check returns nil.
func (w *world) eventually(check func() error) {
	w.t.Helper()
	wait.Until(w.t, "the agent", check)
}

// ready returns an error unless the node's condition is True.
func (w *world) ready() error {
	if c := w.condition(); c.Status != corev1.ConditionTrue {
		return fmt.Errorf("condition %s %s: %s", c.Status, c.Reason, c.Message)
	}
	return nil
}

// told returns an error unless a pod has an event with a text.
func (w *world) told(pod, reason, text string) error {
	events, err := w.client.CoreV1().Events("default").List(w.t.Context(), metav1.ListOptions{})
	for _, e := range events.Items {
		if e.InvolvedObject.Name == pod && e.Reason == reason && strings.Contains(e.Message, text) {
			return nil
		}
	}
	return errors.Join(err, fmt.Errorf("pod %s has no event %s with %q: %+v", pod, reason, text, events.Items))
}

func (w *world) condition() corev1.NodeCondition {
	node, err := w.client.CoreV1().Nodes().Get(context.Background(), nodeName, metav1.GetOptions{})
	if err != nil {
		return corev1.NodeCondition{Message: err.Error()}
	}
	for _, c := range node.Status.Conditions {
		if c.Type == nodetopology.BindingCondition {
			return c
		}
	}
	return corev1.NodeCondition{Message: "the node has no condition"}
}

// newPod returns a pod of one container with a limit of 1 CPU. Unless cpus is "", the pod has an
// allocation of these CPUs.
func newPod(name, cpus string) *corev1.Pod {
	amount := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name)},
		Spec: corev1.PodSpec{NodeName: nodeName, Containers: []corev1.Container{{Name: "app",
			Resources: corev1.ResourceRequirements{Limits: amount, Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, QOSClass: corev1.PodQOSBurstable},
	}
	if cpus != "" {
		p.Annotations = map[string]string{
			"pinfold.dev/cpuset-scheduler": "true",
			"pinfold.dev/cpu-allocation": fmt.Sprintf(
				`{"version":1,"node":%q,"policy":"static","containers":[{"name":"app","cpus":%q,"numaNodes":[0]}]}`, nodeName, cpus),
		}
	}
	return p
}

// run sets the status of the pod's container to running, as the kubelet does.
func run(p *corev1.Pod, id string) {
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", ContainerID: "containerd://" + id,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
}

// containerID returns an id of the length that runtimes use.
func containerID(c rune) string { return strings.Repeat(string(c), 64) }
