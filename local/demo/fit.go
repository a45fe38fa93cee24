package demo

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// smallMemory is enough for every image of the local cluster.
const smallMemory = "256Mi"

// cut lists what was reduced.
type cut []string

func (c cut) String() string {
	if len(c) == 0 {
		return "unchanged"
	}
	return "cut to this machine: " + strings.Join(c, ", ")
}

// fit reduces objects to a node with the given number of CPUs, and assigns their pods to it: no
// container gets more CPUs than that, no Deployment more replicas than fit, and memory is small. It
// does not change objects that create no pods.
func fit(objects []*unstructured.Unstructured, node string, cpus int) (cut, error) {
	var changes cut
	for _, object := range objects {
		path := podPath(object.GetKind(), "spec")
		if path == nil {
			continue
		}
		more, err := fitObject(object, path, node, cpus)
		if err != nil {
			return nil, fmt.Errorf("fit %s: %w", object.GetName(), err)
		}
		changes = append(changes, more...)
	}
	return changes, nil
}

// fitObject is fit for one object, whose pod specification is at path.
func fitObject(object *unstructured.Unstructured, path []string, node string, cpus int) (changes cut, err error) {
	fields, _, err := unstructured.NestedMap(object.Object, path...)
	if err != nil {
		return nil, err
	}
	var spec corev1.PodSpec
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &spec); err != nil {
		return nil, err
	}
	spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	limit := 0
	for _, container := range spec.Containers {
		changes = append(changes, reduce(container.Resources.Limits, cpus)...)
		reduce(container.Resources.Requests, cpus)
		limit += int(container.Resources.Limits.Cpu().Value())
	}
	if fields, err = runtime.DefaultUnstructuredConverter.ToUnstructured(&spec); err != nil {
		return nil, err
	}
	if err := unstructured.SetNestedMap(object.Object, fields, path...); err != nil {
		return nil, err
	}
	if n, ok := replicas(object); ok && limit > 0 && n > cpus/limit {
		changes = append(changes, fmt.Sprintf("%d of %d replicas", cpus/limit, n))
		err = unstructured.SetNestedField(object.Object, int64(cpus/limit), "spec", "replicas")
	}
	return changes, err
}

// reduce reduces limits or requests, and returns what it changed.
func reduce(resources corev1.ResourceList, cpus int) (changes cut) {
	for _, bound := range []struct {
		name corev1.ResourceName
		most resource.Quantity
	}{
		{corev1.ResourceCPU, *resource.NewQuantity(int64(cpus), resource.DecimalSI)},
		{corev1.ResourceMemory, resource.MustParse(smallMemory)},
	} {
		if has := resources[bound.name]; has.Cmp(bound.most) > 0 {
			changes = append(changes, fmt.Sprintf("%s %s instead of %s", bound.name, bound.most.String(), has.String()))
			resources[bound.name] = bound.most
		}
	}
	return changes
}
