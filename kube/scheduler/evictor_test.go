package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/scheduler/evict"
)

// evictions is an evictor on a fake cluster with the node n1, and a clock of its own.
type evictions struct {
	*scenario
	evictor   *evict.Evictor
	leading   bool
	protected map[string]bool // by PodDisruptionBudgets
	evicted   []string
	at        time.Time
}

func newEvictions(t *testing.T) *evictions {
	t.Helper()
	e := &evictions{scenario: newScenario(t, DefaultConfiguration, "node n1 cores=4", "report n1 cores=4 lease", "renew n1", "pod first cpus=1"),
		protected: map[string]bool{}, leading: true, at: time.Unix(1e9, 0)}
	e.client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "eviction" {
			return false, nil, nil
		}
		eviction := action.(clienttesting.CreateAction).GetObject().(*policyv1.Eviction)
		if e.protected[eviction.Name] {
			return true, nil, apierrors.NewTooManyRequests("a budget protects it", 0)
		}
		if uid := eviction.DeleteOptions.Preconditions.UID; uid == nil || string(*uid) != "uid-"+eviction.Name {
			t.Errorf("eviction of %s with UID %v", eviction.Name, uid)
		}
		e.evicted = append(e.evicted, eviction.Name)
		pods := corev1.SchemeGroupVersion.WithResource("pods")
		return true, nil, e.client.Tracker().Delete(pods, eviction.Namespace, eviction.Name)
	})
	shared := e.plugin.shared
	e.evictor = evict.New(e.plugin.handle, shared.podsOn, shared.batchStarves, func() bool { return e.leading }, func() time.Time { return e.at })
	return e
}

// add adds a pod of class BE that runs on n1. The last one added is the youngest.
func (e *evictions) add(name string, change func(*corev1.Pod)) {
	e.t.Helper()
	e.at = e.at.Add(time.Second)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), ResourceVersion: e.nextVersion(),
			CreationTimestamp: metav1.NewTime(e.at), Labels: map[string]string{api.QoSLabel: "BE"}},
		Spec:   corev1.PodSpec{NodeName: "n1", SchedulerName: "default-scheduler", Containers: []corev1.Container{{Name: "c"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, QOSClass: corev1.PodQOSBestEffort},
	}
	if change != nil {
		change(pod)
	}
	e.must(e.client.Tracker().Add(pod))
	e.awaitPods(func(names []string) bool { return slices.Contains(names, name) })
}

// awaitPods waits until the scheduler has seen these pods of n1.
func (e *evictions) awaitPods(right func(names []string) bool) {
	e.t.Helper()
	e.eventually("the scheduler does not see the pods", func() bool {
		pods, err := e.plugin.handle.SharedInformerFactory().Core().V1().Pods().Lister().List(labels.Everything())
		e.must(err)
		var names []string
		for _, pod := range pods {
			if pod.Spec.NodeName == "n1" {
				names = append(names, pod.Name)
			}
		}
		return right(names)
	})
}

// starve sets the node's condition, and waits until the scheduler has seen it.
func (e *evictions) starve(status corev1.ConditionStatus) {
	e.t.Helper()
	node, err := e.client.CoreV1().Nodes().Get(context.Background(), "n1", metav1.GetOptions{})
	e.must(err)
	node.Status.Conditions = []corev1.NodeCondition{{Type: api.BatchStarved, Status: status}}
	_, err = e.client.CoreV1().Nodes().UpdateStatus(context.Background(), node, metav1.UpdateOptions{})
	e.must(err)
	e.eventually("the scheduler does not see the condition", func() bool {
		seen, err := e.plugin.handle.SharedInformerFactory().Core().V1().Nodes().Lister().Get("n1")
		return err == nil && evict.Starves(seen) == (status == corev1.ConditionTrue)
	})
}

// after lets time pass, and returns the pods that are evicted then.
func (e *evictions) after(d time.Duration) []string {
	e.t.Helper()
	e.evicted = nil
	e.at = e.at.Add(d)
	e.evictor.Once(context.Background())
	e.awaitPods(func(names []string) bool {
		return !slices.ContainsFunc(e.evicted, func(name string) bool { return slices.Contains(names, name) })
	})
	return e.evicted
}

// TestEvictions evicts batch pods, the youngest first, one a minute, and nothing else.
func TestEvictions(t *testing.T) {
	e := newEvictions(t)
	for i := range 4 {
		e.add(fmt.Sprint("batch", i), nil)
	}
	e.add("online", func(p *corev1.Pod) { p.Labels[api.QoSLabel] = "LS" })
	e.add("plain", func(p *corev1.Pod) { p.Labels = nil })
	e.add("burstable", func(p *corev1.Pod) { p.Status.QOSClass = corev1.PodQOSBurstable })
	e.add("static", func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} })
	e.add("daemon", func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "d", Controller: new(true)}}
	})
	e.add("elsewhere", func(p *corev1.Pod) { p.Labels[api.QoSLabel] = "BE"; p.Spec.SchedulerName = "other" })
	expect := func(when string, pause time.Duration, want ...string) {
		t.Helper()
		if diff := gocmp.Diff(want, e.after(pause)); diff != "" {
			t.Errorf("%s: -want +evicted:\n%s", when, diff)
		}
	}
	expect("without a condition", 0)
	e.starve(corev1.ConditionFalse)
	expect("while batch pods have enough", time.Minute)
	e.starve(corev1.ConditionTrue)
	expect("when they starve", time.Minute, "elsewhere") // of another scheduler, but a batch pod of this node
	expect("within a minute", 59*time.Second)
	expect("after a minute", time.Second, "batch3")
	e.protected["batch2"] = true
	expect("beside a pod that a budget protects", time.Minute, "batch1")
	e.leading = false
	expect("while another scheduler leads", time.Minute)
	e.leading = true
	e.silence(time.Hour)
	expect("while the agent is silent", time.Minute)
	e.renew("n1")
	e.awaitIdle()
	e.add("ending", func(p *corev1.Pod) {
		p.DeletionTimestamp, p.Finalizers = new(metav1.NewTime(e.at)), []string{"example.com/x"}
	})
	expect("while one ends", time.Minute)
	e.must(e.client.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), "default", "ending"))
	e.awaitPods(func(names []string) bool { return !slices.Contains(names, "ending") })
	expect("when it has ended", time.Minute, "batch0")
	expect("when only protected ones are left", time.Minute)
	delete(e.protected, "batch2")
	expect("without the budget", time.Minute, "batch2")
	expect("without batch pods", time.Minute)
}

// TestRepeatedEvictions evicts less and less often while batch pods come to the node, and neither
// ended pods nor because of them.
func TestRepeatedEvictions(t *testing.T) {
	e := newEvictions(t)
	e.add("ended", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	e.add("kept", func(p *corev1.Pod) {
		p.Status.Phase, p.DeletionTimestamp, p.Finalizers = corev1.PodFailed, new(metav1.NewTime(e.at)), []string{"example.com/x"}
	})
	e.starve(corev1.ConditionTrue)
	if evicted := e.after(time.Minute); evicted != nil {
		t.Errorf("evicted %v, which have ended", evicted)
	}
	e.add("again0", nil)
	if evicted := e.after(0); !slices.Equal(evicted, []string{"again0"}) {
		t.Errorf("evicted %v, want again0", evicted)
	}
	for i, minutes := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		name, pause := fmt.Sprint("again", i+1), minutes*time.Minute
		e.add(name, nil) // the replacement, which another scheduler has placed here, a second later
		if evicted := e.after(pause - 2*time.Second); evicted != nil {
			t.Errorf("evicted %v less than %v after the last one", evicted, pause)
		}
		if evicted := e.after(time.Second); !slices.Equal(evicted, []string{name}) {
			t.Errorf("evicted %v %v after the last one, want %s", evicted, pause, name)
		}
	}
	e.add("late1", nil)
	e.add("late2", nil)
	e.after(3 * time.Hour)
	if evicted := e.after(time.Minute); len(evicted) != 1 {
		t.Errorf("evicted %v a minute later, after hours without an eviction, want one pod", evicted)
	}
}

// TestStarvedNodes places batch pods on no node on which they starve, until they do not.
func TestStarvedNodes(t *testing.T) {
	e := newEvictions(t)
	state := func(name string) string {
		for _, line := range e.changes() {
			if strings.HasPrefix(line, name+" ") {
				return line
			}
		}
		return ""
	}
	create := func(name string, change func(*corev1.Pod)) {
		pod := e.podOf(name, nil)
		pod.Labels, pod.Status.QOSClass = map[string]string{api.QoSLabel: "BE"}, corev1.PodQOSBestEffort
		change(pod)
		e.must(e.client.Tracker().Add(pod))
		e.awaitIdle()
	}
	expect := func(name, want string) {
		t.Helper()
		if got := state(name); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	const refused = " waits: 0/1 nodes are available: 1 has no CPU time left for batch pods."
	create("before", func(*corev1.Pod) {})
	expect("before", "before on n1")
	e.starve(corev1.ConditionTrue)
	create("batch", func(*corev1.Pod) {})
	expect("batch", "batch"+refused)
	create("requests", func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{api.BatchCPU: resource.MustParse("0")}
	})
	expect("requests", "requests"+refused)
	create("online", func(p *corev1.Pod) { p.Labels[api.QoSLabel] = "LS" })
	expect("online", "online on n1")
	create("plain", func(p *corev1.Pod) { p.Labels = nil })
	expect("plain", "plain on n1")
	create("daemon", func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "d", Controller: new(true)}}
	})
	expect("daemon", "daemon on n1")
	e.starve(corev1.ConditionFalse)
	e.awaitIdle()
	expect("batch", "batch on n1")
}
