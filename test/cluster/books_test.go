package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
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

// createPriorities creates the priority classes low and high until the test ends.
func (c *test) createPriorities() {
	c.Helper()
	classes := c.client.SchedulingV1().PriorityClasses()
	for i, name := range []string{"low", "high"} {
		_, err := classes.Create(c.Context(), &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: int32(1 + i*1000)}, metav1.CreateOptions{})
		c.must(err)
		c.Cleanup(func() { c.must(classes.Delete(context.Background(), name, metav1.DeleteOptions{})) })
	}
	c.eventually("admission knows the priority classes", func() error { // through a watch
		_, err := c.podAPI().Create(c.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "trial"},
			Spec: corev1.PodSpec{PriorityClassName: "high", Containers: []corev1.Container{{Name: "app", Image: "app"}}}},
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
}

// evictsForPriority gives a pod of higher priority the CPUs on which a pod runs that asks for none.
func (c *test) evictsForPriority() {
	c.Helper()
	c.createPriorities()
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
		c.Errorf("urgent has %d CPUs, want 6", n)
	}
	if _, err := c.podAPI().Get(c.Context(), "plain", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		c.Errorf("plain still exists: %v", err)
	}
	c.checkBooks()
}

// checkBooks waits until the agents have allocated CPUs to all pods of the test that are bound and
// ask, and checks the books of their nodes.
func (c *test) checkBooks() {
	c.Helper()
	pods, err := c.pods()
	c.must(err)
	nodes := map[string][]*corev1.Pod{}
	for i := range pods {
		pod := &pods[i]
		if asks, err := api.Asks(pod); pod.Spec.NodeName != "" && asks && !api.HasEnded(pod) {
			c.must(err)
			c.allocation(pod)
		}
		nodes[pod.Spec.NodeName] = append(nodes[pod.Spec.NodeName], pod)
	}
	delete(nodes, "")
	for name, pods := range nodes {
		machine, state := c.machine(name)
		var claims []ledger.Claim
		for _, pod := range pods {
			claim, _, err := state.Allocations.Claim(pod, machine)
			c.must(err)
			claims = append(claims, claim)
		}
		books := ledger.New(placement.NewIndex(machine), ledger.Config{ReservedCPUs: state.ReservedCPUs, MinShared: api.DefaultMinSharedCPUs}, claims...)
		for _, conflict := range books.Conflicts() {
			c.Errorf("node %s: pod %s has CPUs of another pod, or that the node lacks", name, conflict.ID)
		}
		for _, overflow := range books.Overflow() {
			c.Errorf("node %s: %s", name, overflow)
		}
	}
}
