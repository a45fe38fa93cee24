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
				if a := c.allocation(&pod); a.Policy != policy || pod.Spec.NodeSelector["policy"] != "" && pod.Spec.NodeName != intel {
					t.Errorf("pod %s is on %s with %+v", pod.Name, pod.Spec.NodeName, a)
				}
			}
			c.checkBooks()
		})
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
