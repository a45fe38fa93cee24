package cluster

import (
	"context"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
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

// allocationKeys is the flag that names the public keys of the cluster's scheduler.
func (c *test) allocationKeys() string {
	return "--allocation-keys=" + filepath.Join(c.dir, "pki", "allocations.pub")
}

// forgedPod returns the manifest of a pod with a node and an allocation of all CPUs there.
func (c *test) forgedPod(name string) *corev1.Pod {
	c.Helper()
	return c.parse(`
metadata: {name: ` + name + `, annotations: {cpuset-scheduler: "true", pinfold.dev/cpu-allocation: '` + forged("0-7") + `'}}
spec:
  nodeName: ` + small0 + `
  containers:
  - {name: app, image: app, resources: {requests: {cpu: 1m}, limits: {cpu: 8}}}
`)
}

// bookedNode is the state of a node at one moment.
type bookedNode struct {
	machine *topology.Machine
	config  ledger.Config
	claims  []ledger.Claim
	owners  map[cpuset.CPU]string
}

// checkBooks derives every node's books from the test's pods only, at one moment, since a list is a
// consistent snapshot. If all pods were placed by the scheduler, there are no conflicts, and every
// allocation is complete.
func (c *test) checkBooks() {
	c.Helper()
	nodes := map[string]*bookedNode{}
	pods, err := c.pods()
	c.must(err)
	for i := range pods {
		pod := &pods[i]
		if pod.Spec.NodeName == "" {
			continue
		}
		node := nodes[pod.Spec.NodeName]
		if node == nil {
			machine, state := c.machine(pod.Spec.NodeName)
			node = &bookedNode{machine: machine, owners: map[cpuset.CPU]string{},
				config: ledger.Config{ReservedCPUs: state.ReservedCPUs, MinShared: 1}}
			nodes[pod.Spec.NodeName] = node
		}
		claim, err := api.Claim(pod, node.machine)
		if err != nil {
			c.Errorf("pod %s on %s: %v", pod.Name, pod.Spec.NodeName, err)
		}
		node.claims = append(node.claims, claim)
		for _, container := range claim.Containers {
			for cpu := range container.CPUs.All() {
				if owner := node.owners[cpu]; owner != "" && owner != pod.Name {
					c.Errorf("CPU %d of %s belongs to pods %s and %s", cpu, pod.Spec.NodeName, owner, pod.Name)
				}
				node.owners[cpu] = pod.Name
			}
		}
	}
	for name, node := range nodes {
		books := ledger.New(placement.NewIndex(node.machine), node.config, node.claims...)
		for _, conflict := range books.Conflicts() {
			c.Errorf("node %s: %s", name, conflict)
		}
		for _, overflow := range books.Overflow() {
			c.Errorf("node %s: %s", name, overflow)
		}
	}
}
