package demo

import (
	"fmt"
	"io/fs"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/deploy/examples"
)

// policyKey is the word in which the manifests' comments name the policy.
const policyKey = "cpu-policy"

// loadManifests reads example manifests. Nothing in them is changed, a null
// included, except that a policy is set on the pods if one is given.
func loadManifests(files []string, policy placement.Policy) ([]*unstructured.Unstructured, error) {
	objects := make([]*unstructured.Unstructured, 0, len(files))
	for _, name := range files {
		text, err := fs.ReadFile(examples.Files, "ack/"+name)
		if err != nil {
			return nil, fmt.Errorf("read manifest: %w", err)
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &object.Object); err != nil {
			return nil, fmt.Errorf("read manifest %s: %w", name, err)
		}
		if path := annotationsPath(object.GetKind()); policy != "" && path != nil {
			path = append(path, policyKey)
			if err := unstructured.SetNestedField(object.Object, string(policy), path...); err != nil {
				return nil, fmt.Errorf("set the policy of %s: %w", name, err)
			}
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// annotationsPath says where the annotations of pods are in an object of a kind,
// nil when it makes no pods.
func annotationsPath(kind string) []string {
	switch kind {
	case "Pod":
		return []string{"metadata", "annotations"}
	case "Deployment":
		return []string{"spec", "template", "metadata", "annotations"}
	default:
		return nil
	}
}

// podCount is the number of pods that come out of objects.
func podCount(objects []*unstructured.Unstructured) int {
	count := 0
	for _, object := range objects {
		switch object.GetKind() {
		case "Pod":
			count++
		case "Deployment":
			replicas, found, err := unstructured.NestedFieldNoCopy(object.Object, "spec", "replicas")
			if n, ok := number(replicas); found && err == nil && ok {
				count += n
			} else {
				count++ // the API's default
			}
		}
	}
	return count
}

// number reads a number as YAML or JSON decoding left it.
func number(value any) (int, bool) {
	switch n := value.(type) {
	case int64:
		return int(n), true
	case float64:
		return int(n), true
	default:
		return 0, false
	}
}
