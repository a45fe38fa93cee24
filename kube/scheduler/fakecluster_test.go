package scheduler

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	fwk "k8s.io/kube-scheduler/framework"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/kube/nodetopology/nodetopologytest"
	"pinfold.dev/pinfold/test/logtext"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/wait"
)

// fakeCluster is a complete kube-scheduler with the plugin and client-go's fake API servers.
type fakeCluster struct {
	t          testing.TB
	client     *fake.Clientset
	topologies *nodetopologytest.Fake
	// syncTimeout bounds the wait for the first list of topologies.
	syncTimeout time.Duration
	scheduler   *kubescheduler.Scheduler
	plugin      *Plugin

	log     logtext.Log // of the scheduler
	events  *eventLog
	mu      sync.Mutex
	version int
	ahead   atomic.Int64 // of the real time, in nanoseconds: the clock by which agents are silent
}

// eventLog collects the plugin's own events.
type eventLog struct {
	mu    sync.Mutex
	lines []string
}

var topologyResource = nodetopology.GroupVersion.WithResource(nodetopology.Resource)

func newFakeCluster(t testing.TB, configuration string) *fakeCluster {
	t.Helper()
	c := &fakeCluster{t: t, syncTimeout: time.Minute}
	c.start(configuration)
	return c
}

// start starts the scheduler.
func (c *fakeCluster) start(configuration string) {
	t := c.t
	t.Helper()
	c.events, c.client = &eventLog{}, fake.NewSimpleClientset()
	if c.topologies == nil {
		c.topologies = nodetopologytest.NewFake()
	}
	c.client.PrependReactor("create", "pods", c.bind)
	c.topologies.PrependWatchReactor("*", refuseWatchList)
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&c.log)))))
	obj, _, err := scheme.Codecs.UniversalDecoder().Decode([]byte(configuration), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	informers := kubescheduler.NewInformerFactory(c.client, 0, nil)
	newHere := func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		p, err := newPlugin(ctx, args, handle, environment{
			topologies:  func(*rest.Config) (nodetopology.Client, error) { return c.topologies, nil },
			syncTimeout: c.syncTimeout,
			now:         func() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) },
		})
		c.plugin = p
		return p, err
	}
	c.scheduler = must.Get(kubescheduler.New(ctx, c.client, informers, nil,
		func(string) events.EventRecorderLogger { return recorder{c.events} },
		kubescheduler.WithProfiles(obj.(*config.KubeSchedulerConfiguration).Profiles...),
		kubescheduler.WithFrameworkOutOfTreeRegistry(frameworkruntime.Registry{Name: newHere}),
		kubescheduler.WithPodInitialBackoffSeconds(0), kubescheduler.WithPodMaxBackoffSeconds(0)))(t)
	informers.Start(ctx.Done())
	informers.WaitForCacheSync(ctx.Done())
	must.Do(t, c.scheduler.WaitForHandlersSync(ctx))
	done := runIn(ctx, c.scheduler.Run)
	t.Cleanup(func() { cancel(); <-done })
}

// refuseWatchList makes reflectors list before they watch. Fake API servers without support for
// watch lists never answer them.
func refuseWatchList(action clienttesting.Action) (bool, watch.Interface, error) {
	if w, ok := action.(clienttesting.WatchActionImpl); ok && w.ListOptions.SendInitialEvents != nil {
		return true, nil, apierrors.NewInvalid(schema.GroupKind{}, "", nil)
	}
	return false, nil, nil
}

// runIn runs f and returns a channel that is closed when it has returned.
func runIn(ctx context.Context, f func(context.Context)) <-chan struct{} {
	done := make(chan struct{})
	go func() { defer close(done); f(ctx) }()
	return done
}

// nextVersion returns a new resource version. Fake API servers do not set any.
func (c *fakeCluster) nextVersion() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	return strconv.Itoa(c.version)
}

// bind carries out a Binding as the API server does.
func (c *fakeCluster) bind(action clienttesting.Action) (bool, runtime.Object, error) {
	create := action.(clienttesting.CreateAction)
	if create.GetSubresource() != "binding" {
		return false, nil, nil
	}
	binding := create.GetObject().(*corev1.Binding)
	pods := c.client.Tracker()
	obj, err := pods.Get(corev1.SchemeGroupVersion.WithResource("pods"), binding.Namespace, binding.Name)
	if err != nil {
		return true, nil, err
	}
	pod := obj.(*corev1.Pod).DeepCopy()
	if pod.Spec.NodeName != "" {
		return true, nil, fmt.Errorf("pod %s is bound to %s already", pod.Name, pod.Spec.NodeName)
	}
	if binding.UID != pod.UID || binding.ResourceVersion != "" && binding.ResourceVersion != pod.ResourceVersion {
		return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "pods/binding"}, pod.Name, errors.New("precondition failed"))
	}
	setBound(pod, binding.Target.Name, c.nextVersion())
	return true, binding, pods.Update(corev1.SchemeGroupVersion.WithResource("pods"), pod, pod.Namespace)
}

func setBound(pod *corev1.Pod, node, version string) {
	pod.Spec.NodeName, pod.ResourceVersion = node, version
	at := metav1.Unix(int64(len(version))*1000, 0)
	if n, err := strconv.ParseInt(version, 10, 64); err == nil {
		at = metav1.Unix(1e9+n, 0)
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: at}}
}

// awaitIdle waits until the scheduler has nothing left to do.
func (c *fakeCluster) awaitIdle() {
	c.t.Helper()
	wait.Until(c.t, "the scheduler has nothing to do", func() error {
		for range 4 {
			if !c.quiet() {
				_, queue := c.scheduler.SchedulingQueue.PendingPods()
				return errors.New(queue)
			}
			time.Sleep(5 * time.Millisecond)
		}
		return nil
	})
}

func (c *fakeCluster) quiet() bool {
	_, queue := c.scheduler.SchedulingQueue.PendingPods()
	if !strings.Contains(queue, "activeQ:0;") || !strings.Contains(queue, "backoffQ:0;") ||
		len(c.scheduler.SchedulingQueue.InFlightPods()) > 0 || c.scheduler.Cache.Dump().AssumedPods.Len() > 0 ||
		c.plugin.shared.waiting.Releases() {
		return false
	}
	bound := 0
	for _, pod := range c.pods() {
		switch {
		case pod.Spec.NodeName != "":
			bound++
		case pod.Status.NominatedNodeName != "" || condition(pod) == "":
			return false
		}
	}
	known, err := c.scheduler.Cache.PodCount()
	return err == nil && known == bound
}

func (c *fakeCluster) pods() []corev1.Pod {
	c.t.Helper()
	list := must.Get(c.client.CoreV1().Pods("").List(context.Background(), metav1.ListOptions{}))(c.t)
	return list.Items
}

// condition returns the reason why the pod waits.
func condition(pod corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Message
		}
	}
	return ""
}

// eventually waits until the condition holds. Meanwhile `otherwise` is true.
func (c *fakeCluster) eventually(otherwise string, holds func() bool) {
	c.t.Helper()
	wait.True(c.t, otherwise, holds)
}

// publish creates or replaces a node's topology object, and waits until the plugin has seen it.
func (c *fakeCluster) publish(obj *nodetopology.NodeTopology) {
	c.t.Helper()
	obj = obj.DeepCopy()
	obj.ResourceVersion = c.nextVersion()
	err := c.topologies.Tracker.Create(topologyResource, obj, "")
	if err != nil {
		err = c.topologies.Tracker.Update(topologyResource, obj, "")
	}
	if err != nil {
		c.t.Fatal(err)
	}
	want := c.plugin.shared.reports.Read(obj)
	c.eventually("the plugin does not see the topology of "+obj.Name, func() bool {
		got := c.plugin.shared.reports.Of(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: obj.Name, UID: want.Owner}})
		return got != nil && (reflect.DeepEqual(got.Decoded, want.Decoded) || got.Err != nil && want.Err != nil && got.Err.Error() == want.Err.Error())
	})
}

// recorder records events in eventLog.
type recorder struct{ events *eventLog }

func (r recorder) Eventf(regarding, _ runtime.Object, _, reason, _, note string, args ...any) {
	if !strings.HasPrefix(reason, "CPU") {
		return
	}
	r.events.mu.Lock()
	defer r.events.mu.Unlock()
	r.events.lines = append(r.events.lines,
		fmt.Sprintf("event on %s: %s: %s", regarding.(*corev1.Pod).Name, reason, fmt.Sprintf(note, args...)))
}

func (r recorder) WithLogger(klog.Logger) events.EventRecorderLogger { return r }
