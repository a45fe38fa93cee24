package demo

import (
	"fmt"
	"io/fs"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/deploy"
	"pinfold.dev/pinfold/local/localnode"
)

// policyKey is the annotation of the policy in the manifests, which use the keys of ACK.
const policyKey = "cpu-policy"

// loadManifests reads example manifests. It changes nothing in them, not even a null, except that
// it sets their namespace, and the policy of the pods if one is given.
func loadManifests(files []string, policy placement.Policy) (all []*unstructured.Unstructured, err error) {
	for _, name := range files {
		text, err := fs.ReadFile(deploy.Examples(), "ack/"+name)
		if err != nil {
			return nil, fmt.Errorf("read manifest: %w", err)
		}
		objects, err := localnode.Decode(text)
		if err != nil {
			return nil, fmt.Errorf("manifest %s: %w", name, err)
		}
		for _, object := range objects {
			object.SetNamespace(namespace)
			if path := podPath(object.GetKind(), "metadata", "annotations", policyKey); policy != "" && path != nil {
				if err := unstructured.SetNestedField(object.Object, string(policy), path...); err != nil {
					return nil, fmt.Errorf("set the policy of %s: %w", name, err)
				}
			}
		}
		all = append(all, objects...)
	}
	return all, nil
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
	n, found, err := unstructured.NestedInt64(object.Object, "spec", "replicas")
	return int(n), found && err == nil // the API server reports errors
}
