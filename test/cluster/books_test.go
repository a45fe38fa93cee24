package cluster

import (
	"fmt"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/kube/admission"
	"pinfold.dev/pinfold/kube/api"
)

// asking returns the manifest of a pod that asks for CPUs of the node small0, with more fields of
// its spec.
func asking(name string, cpus int, more string) string {
	return fmt.Sprintf(`
metadata: {name: %s, annotations: {cpuset-scheduler: "true"}}
spec:
  nodeSelector: {kubernetes.io/hostname: %s}
  containers:
  - {name: app, image: app, resources: {requests: {cpu: %d}, limits: {cpu: %d}}}
  %s
`, name, small0, cpus, cpus, more)
}

// TestBestNodeWins: a pod is placed where its CPUs are best. 40 CPUs fit into one NUMA node of the
// Intel machine (52 each), as long as one is free, and into two of the AMD machine (32 each).
func TestBestNodeWins(t *testing.T) {
	c := begin(t)
	for i, want := range []string{intel, intel, amd} {
		name := fmt.Sprint("large", i)
		c.create(`
metadata: {name: ` + name + `, annotations: {cpuset-scheduler: "true"}}
spec:
  containers: [{name: app, image: app, resources: {requests: {cpu: 1}, limits: {cpu: 40}}}]
`)
		if got := c.bound(name).Spec.NodeName; got != want {
			t.Errorf("pod %s is on %s, want %s", name, got, want)
		}
	}
	c.checkBooks()
}

// TestPreemption: a pod of higher priority gets the CPUs on which a pod runs that asks for none.
func TestPreemption(t *testing.T) {
	c := begin(t)
	for i, name := range []string{"low", "high"} {
		_, err := c.client.SchedulingV1().PriorityClasses().Create(t.Context(),
			&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: int32(1 + i*1000)}, metav1.CreateOptions{})
		c.must(err)
	}
	c.eventually(func() string { // admission receives classes through a watch
		_, err := c.client.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "trial"},
			Spec: corev1.PodSpec{PriorityClassName: "high", Containers: []corev1.Container{{Name: "app", Image: "app"}}}},
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return err.Error()
		}
		return ""
	})
	c.create(`
metadata: {name: plain}
spec:
  priorityClassName: low
  terminationGracePeriodSeconds: 1
  nodeSelector: {kubernetes.io/hostname: ` + small0 + `}
  containers:
  - {name: app, image: app, resources: {requests: {cpu: 5}}}
`)
	c.bound("plain")
	c.create(asking("alike", 6, "priorityClassName: low"))
	c.waits("alike", "1 has fewer than 6 exclusive CPUs left (most: 3 on "+small0+")")
	c.create(asking("urgent", 6, "priorityClassName: high"))
	urgent := c.bound("urgent")
	if n := c.allocation(urgent).Containers[0].CPUs.Len(); n != 6 {
		t.Errorf("urgent has %d CPUs, want 6", n)
	}
	if _, err := c.client.CoreV1().Pods("default").Get(t.Context(), "plain", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("plain still exists: %v", err)
	}
	c.checkBooks()
}

// TestExclusiveCPUsAreNotPromisedAgain: exclusive CPUs, whose number is in the limit, are not
// available for pods that ask for none, even if the requests would fit.
func TestExclusiveCPUsAreNotPromisedAgain(t *testing.T) {
	c := begin(t)
	c.namespace("keeps", map[string]string{admission.KeepRequestsLabel: "true"})
	c.createIn("keeps", `
metadata: {name: asks, annotations: {cpuset-scheduler: "true"}}
spec:
  nodeSelector: {kubernetes.io/hostname: `+small0+`}
  containers:
  - {name: app, image: app, resources: {requests: {cpu: 1}, limits: {cpu: 6}}}
`)
	c.boundIn("keeps", "asks")
	c.create(`
metadata: {name: plain}
spec:
  nodeSelector: {kubernetes.io/hostname: ` + small0 + `}
  containers:
  - {name: app, image: app, resources: {requests: {cpu: 3}}}
`)
	c.waits("plain", "1 has less than 3 shared CPUs left (most: 2 on "+small0+")")
}

// TestEndedPodFreesCPUs: a pod that has ended frees its CPUs even if it is not deleted.
func TestEndedPodFreesCPUs(t *testing.T) {
	c := begin(t)
	c.create(asking("job", 6, "restartPolicy: Never"))
	c.bound("job")
	c.create(asking("next", 6, ""))
	c.waits("next", "1 has fewer than 6 exclusive CPUs left (most: 1 on "+small0+")")
	c.eventually(func() string {
		if err := c.end(t.Context(), "job"); err != nil {
			return err.Error()
		}
		return ""
	})
	c.bound("next")
	if job := c.pod("job"); job.Status.Phase != corev1.PodSucceeded {
		t.Errorf("job is %s", job.Status.Phase)
	}
	c.checkBooks()
}

// TestEditedAllocation: an allocation that was edited takes no CPUs. An event tells the pod, and no
// other pod gets into a conflict.
func TestEditedAllocation(t *testing.T) {
	c := begin(t)
	c.create(asking("first", 1, ""))
	c.bound("first")
	c.create(asking("second", 1, ""))
	second := c.bound("second")
	stolen := c.allocation(c.pod("first"))
	c.unprotect("second")
	c.annotate("second", api.AllocationAnnotation, stolen.Encode())
	c.event("second", "CPUAllocationInvalid", "its signature does not verify")
	c.annotate("second", api.AllocationAnnotation, second.Annotations[api.AllocationAnnotation][:40])
	c.event("second", "CPUAllocationInvalid", "it is not JSON, or was cut short")
	c.annotate("second", api.AllocationAnnotation,
		`{"version":1,"node":"`+small0+`","policy":"static","containers":[{"name":"app","cpus":"200","numaNodes":[0]}]}`)
	c.event("second", "CPUAllocationInvalid", "it has no signature")
	c.create(asking("third", 4, ""))
	if third := c.allocation(c.bound("third")).Containers[0].CPUs; third.Intersects(stolen.Containers[0].CPUs) {
		t.Errorf("third has CPUs %s, of which first has %s", third, stolen.Containers[0].CPUs)
	}
}

// allocationKeys is the flag that names the public keys of the cluster's scheduler.
func (c *test) allocationKeys() string {
	return "--allocation-keys=" + filepath.Join(c.dir, "pki", "allocations.pub")
}

// forgedPod returns the manifest of a pod with a node and an allocation of all CPUs there.
func (c *test) forgedPod(name string) *corev1.Pod {
	c.Helper()
	var pod corev1.Pod
	c.must(yaml.UnmarshalStrict([]byte(`
metadata: {name: `+name+`, annotations: {cpuset-scheduler: "true", pinfold.dev/cpu-allocation: '{"version":1,"node":"`+small0+
		`","policy":"static","containers":[{"name":"app","cpus":"0-7","numaNodes":[0]}]}'}}
spec:
  nodeName: `+small0+`
  containers:
  - {name: app, image: app, resources: {requests: {cpu: 1m}, limits: {cpu: 8}}}
`), &pod))
	return &pod
}

// TestForgedAtCreation: without the policy, pods that are created with a node and an allocation
// take no CPUs, and the pods that the scheduler placed keep theirs.
func TestForgedAtCreation(t *testing.T) {
	c := begin(t)
	c.create(asking("innocent", 2, ""))
	before := c.allocation(c.bound("innocent")).Containers[0].CPUs
	c.unprotect("innocent")
	for i := range 5 {
		name := fmt.Sprint("forged", i)
		_, err := c.client.CoreV1().Pods("default").Create(c.Context(), c.forgedPod(name), metav1.CreateOptions{})
		c.must(err)
		c.event(name, "CPUAllocationInvalid", "it has no signature")
	}
	c.create(asking("next", 5, ""))
	if next := c.allocation(c.bound("next")).Containers[0].CPUs; next.Intersects(before) {
		t.Errorf("next has CPUs %s, of which innocent has %s", next, before)
	}
	list, err := c.client.CoreV1().Events("default").List(c.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=innocent"})
	c.must(err)
	for _, event := range list.Items {
		if event.Reason == "CPUConflict" {
			t.Errorf("innocent has the event: %s", event.Message)
		}
	}
}

// TestForgedAllocation: a forged allocation on a pod without a node is overwritten when the pod is
// bound.
func TestForgedAllocation(t *testing.T) {
	c := begin(t)
	c.create(asking("trial", 1, ""))
	c.unprotect("trial")
	forged := `pinfold.dev/cpu-allocation: '{"version":1,"node":"` + small0 + `","policy":"static","containers":[{"name":"app","cpus":"0-7","numaNodes":[0]}]}'`
	c.create(`
metadata: {name: asks, annotations: {cpuset-scheduler: "true", ` + forged + `}}
spec:
  nodeSelector: {kubernetes.io/hostname: ` + small0 + `}
  containers:
  - {name: app, image: app, resources: {requests: {cpu: 2}, limits: {cpu: 2}}}
`)
	if cpus := c.allocation(c.bound("asks")).Containers[0].CPUs; cpus.Len() != 2 {
		t.Errorf("asks has CPUs %s, want 2", cpus)
	}
	c.create(`
metadata: {name: plain, annotations: {` + forged + `}}
spec:
  nodeSelector: {kubernetes.io/hostname: ` + small0 + `}
  containers: [{name: app, image: app}]
`)
	if got := c.bound("plain").Annotations[api.AllocationAnnotation]; got != "" {
		t.Errorf("plain has the allocation %s", got)
	}
	c.create(asking("next", 4, ""))
	c.bound("next")
	c.checkBooks()
}
