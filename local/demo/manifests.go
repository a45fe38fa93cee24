package demo

import (
	"fmt"
	"io/fs"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/deploy"
)

// policyKey is the annotation of the policy in the manifests, which use the keys of ACK.
const policyKey = "cpu-policy"

// loadManifests reads example manifests. It changes nothing in them, not even a null, except that
// it sets the policy of the pods if one is given.
func loadManifests(files []string, policy placement.Policy) ([]*unstructured.Unstructured, error) {
	objects := make([]*unstructured.Unstructured, 0, len(files))
	for _, name := range files {
		text, err := fs.ReadFile(deploy.Examples(), "ack/"+name)
		if err != nil {
			return nil, fmt.Errorf("read manifest: %w", err)
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &object.Object); err != nil {
			return nil, fmt.Errorf("read manifest %s: %w", name, err)
		}
		if path := podPath(object.GetKind(), "metadata", "annotations", policyKey); policy != "" && path != nil {
			if err := unstructured.SetNestedField(object.Object, string(policy), path...); err != nil {
				return nil, fmt.Errorf("set the policy of %s: %w", name, err)
			}
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// podPath returns the path of a pod's field in an object of the given kind, nil if such objects
// create no pods.
func podPath(kind string, field ...string) []string {
	switch kind {
	case "Pod":
		return field
	case "Deployment":
		return append([]string{"spec", "template"}, field...)
	}
	return nil
}

// podCount returns the number of pods that the objects create.
func podCount(objects []*unstructured.Unstructured) int {
	count := 0
	for _, object := range objects {
		if n, ok := replicas(object); ok {
			count += n
		} else if podPath(object.GetKind(), "spec") != nil {
			count++
		}
	}
	return count
}

// replicas returns the number of replicas in an object's specification, if it has one.
func replicas(object *unstructured.Unstructured) (int, bool) {
	value, _, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "replicas") // the API server reports errors
	switch n := value.(type) {
	case int64:
		return int(n), true
	case float64: // as YAML is decoded
		return int(n), true
	}
	return 0, false
}
