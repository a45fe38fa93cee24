package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/deploy"
)

// TestExampleManifests: the manifests of ACK's documentation, unchanged.
func TestExampleManifests(t *testing.T) {
	for _, policy := range []placement.Policy{placement.Static, placement.StaticBurst} {
		t.Run(string(policy), func(t *testing.T) {
			c := begin(t)
			c.labelNode(intel, "policy", "intel7")
			for _, file := range []string{"service.yaml", "configmap.yaml", "nginx.yaml", "go-demo.yaml", "cal-pi.yaml"} {
				c.apply(file, policy)
			}
			pods := c.allBound(1 + 4 + 2)
			for _, pod := range pods {
				c.checkExample(&pod, policy)
			}
			c.checkBooks()
		})
	}
}

// TestExampleWithoutPlacement: with annotations that are null and a policy of none, the pods are
// placed as by the plain scheduler.
func TestExampleWithoutPlacement(t *testing.T) {
	c := begin(t)
	c.labelNode(intel, "policy", "intel7")
	for _, file := range []string{"service.yaml", "configmap.yaml", "nginx-baseline.yaml"} {
		c.apply(file, "")
	}
	for _, pod := range c.allBound(2) {
		all, err := c.allocations(pod.Spec.NodeName)
		if a, ok := all[pod.UID]; err != nil || ok {
			t.Errorf("pod %s has the allocation %+v, %v", pod.Name, a, err)
		}
	}
}

// checkExample checks a pod of the examples, whose containers all have a limit of 4 CPUs.
func (c *test) checkExample(pod *corev1.Pod, policy placement.Policy) {
	c.Helper()
	if selected := pod.Spec.NodeSelector["policy"]; selected != "" && pod.Spec.NodeName != intel {
		c.Errorf("pod %s selects policy=%s and is on %s", pod.Name, selected, pod.Spec.NodeName)
	}
	a := c.allocation(pod)
	if a.Policy != policy || a.Node != pod.Spec.NodeName || len(a.Containers) != 1 {
		c.Fatalf("pod %s on %s: allocation %+v, want one container with policy %s", pod.Name, pod.Spec.NodeName, a, policy)
	}
	got := a.Containers[0]
	if len(got.NUMANodes) != 1 {
		c.Errorf("pod %s is on NUMA nodes %v, although one would be enough", pod.Name, got.NUMANodes)
	}
	machine, _ := c.machine(a.Node)
	want := placement.Quality{Kinds: 1, NUMANodes: 1, LLCs: 1, Packages: 1}
	switch policy {
	case placement.Static:
		if n := got.CPUs.Len(); n != 4 {
			c.Errorf("pod %s has %d CPUs (%s), its limit is 4", pod.Name, n, got.CPUs)
		}
		// The machines have two free whole cores behind one cache.
		if q := placement.NewIndex(machine).Quality(got.CPUs); q != want {
			c.Errorf("pod %s on %s has CPUs %s of quality %+v, want %+v", pod.Name, a.Node, got.CPUs, q, want)
		}
	case placement.StaticBurst:
		if !got.CPUs.IsEmpty() {
			c.Errorf("pod %s has exclusive CPUs %s, although its policy is static-burst", pod.Name, got.CPUs)
		}
	}
}

// apply creates the objects of a manifest, including nulls, with a policy for its pods.
func (c *test) apply(file string, policy placement.Policy) {
	c.Helper()
	text, err := fs.ReadFile(deploy.Examples(), "ack/"+file)
	c.must(err)
	obj := &unstructured.Unstructured{}
	c.must(yaml.Unmarshal(text, &obj.Object))
	at := map[string][]string{"Pod": {"metadata", "annotations"}, "Deployment": {"spec", "template", "metadata", "annotations"}}[obj.GetKind()]
	if policy == placement.StaticBurst && at != nil {
		c.must(unstructured.SetNestedField(obj.Object, string(policy), append(at, "cpu-policy")...))
	}
	resource := map[string]schema.GroupVersionResource{
		"Pod":        {Version: "v1", Resource: "pods"},
		"Service":    {Version: "v1", Resource: "services"},
		"ConfigMap":  {Version: "v1", Resource: "configmaps"},
		"Deployment": {Group: "apps", Version: "v1", Resource: "deployments"},
	}[obj.GetKind()]
	objects := c.objects.Resource(resource).Namespace(c.home)
	_, err = objects.Create(c.Context(), obj, metav1.CreateOptions{})
	c.must(err)
	if obj.GetKind() == "Service" { // its port is one of a node
		c.Cleanup(func() { c.must(objects.Delete(context.Background(), obj.GetName(), metav1.DeleteOptions{})) })
	}
}

func (c *test) labelNode(node, key, value string) {
	c.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, key, value)
	_, err := c.client.CoreV1().Nodes().Patch(c.Context(), node, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	c.must(err)
}

// allBound waits until there is the given number of pods, all with a node. If one is missing, the
// message says what its Deployment waits for.
func (c *test) allBound(count int) (pods []corev1.Pod) {
	c.Helper()
	c.eventually(fmt.Sprintf("%d pods are bound", count), func() (err error) {
		if pods, err = c.pods(); err != nil {
			return err
		}
		var names []string
		for _, pod := range pods {
			names = append(names, pod.Name)
			if pod.Spec.NodeName == "" {
				return fmt.Errorf("pod %s waits: %s", pod.Name, waitsFor(&pod))
			}
		}
		if len(pods) == count {
			return nil
		}
		deployments, err := c.client.AppsV1().Deployments(c.home).List(c.Context(), metav1.ListOptions{})
		for _, d := range deployments.Items {
			err = errors.Join(err, fmt.Errorf("deployment %s wants %d pods: %+v", d.Name, *d.Spec.Replicas, d.Status))
		}
		return errors.Join(fmt.Errorf("there are the pods %q", names), err)
	})
	return pods
}
