package demo

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// smallMemory is enough for every image of the local cluster.
const smallMemory = "256Mi"

// cut says what was made smaller, in words.
type cut []string

func (c cut) String() string {
	if len(c) == 0 {
		return "as it stands"
	}
	return "cut to this machine: " + strings.Join(c, ", ")
}

// fit makes objects fit a node that can give so many CPUs, and sends their pods there:
// no container has more CPUs than that, no Deployment more replicas than get theirs,
// and memory is small. Other objects stay as they are.
func fit(objects []*unstructured.Unstructured, node string, cpus int) (cut, error) {
	var changes cut
	for _, object := range objects {
		path := specPath(object.GetKind())
		if path == nil {
			continue
		}
		selector := map[string]any{corev1.LabelHostname: node}
		if err := unstructured.SetNestedMap(object.Object, selector, append(path, "nodeSelector")...); err != nil {
			return nil, fmt.Errorf("send %s to node %s: %w", object.GetName(), node, err)
		}
		limit, more, err := fitContainers(object, path, cpus)
		if err != nil {
			return nil, fmt.Errorf("fit %s: %w", object.GetName(), err)
		}
		changes = append(changes, more...)
		replicas, found, err := unstructured.NestedFieldNoCopy(object.Object, "spec", "replicas")
		if n, ok := number(replicas); found && err == nil && ok && limit > 0 && n > cpus/limit {
			changes = append(changes, fmt.Sprintf("%d of %d replicas", cpus/limit, n))
			if err := unstructured.SetNestedField(object.Object, int64(cpus/limit), "spec", "replicas"); err != nil {
				return nil, fmt.Errorf("fit %s: %w", object.GetName(), err)
			}
		}
	}
	return changes, nil
}

// specPath says where the specification of pods is in an object of a kind.
func specPath(kind string) []string {
	switch kind {
	case "Pod":
		return []string{"spec"}
	case "Deployment":
		return []string{"spec", "template", "spec"}
	default:
		return nil
	}
}

// fitContainers cuts what the containers of a pod ask for, and returns the CPUs that
// they are limited to then, together.
func fitContainers(object *unstructured.Unstructured, path []string, cpus int) (limit int, changes cut, err error) {
	path = append(append([]string(nil), path...), "containers")
	containers, _, err := unstructured.NestedSlice(object.Object, path...)
	if err != nil {
		return 0, nil, err
	}
	for _, container := range containers {
		fields, ok := container.(map[string]any)
		if !ok {
			return 0, nil, fmt.Errorf("a container is a %T", container)
		}
		for _, part := range []string{"limits", "requests"} {
			more, err := fitResources(fields, part, cpus)
			if err != nil {
				return 0, nil, err
			}
			if part == "limits" {
				changes = append(changes, more...)
			}
		}
		quantity, err := readQuantity(fields, "limits", "cpu")
		if err != nil {
			return 0, nil, err
		}
		limit += int(quantity.Value())
	}
	return limit, changes, unstructured.SetNestedSlice(object.Object, containers, path...)
}

// fitResources cuts the limits or requests of a container.
func fitResources(container map[string]any, part string, cpus int) (changes cut, err error) {
	for _, bound := range []struct {
		name string
		most resource.Quantity
	}{
		{"cpu", *resource.NewQuantity(int64(cpus), resource.DecimalSI)},
		{"memory", resource.MustParse(smallMemory)},
	} {
		has, err := readQuantity(container, part, bound.name)
		if err != nil {
			return nil, err
		}
		if has.Cmp(bound.most) <= 0 {
			continue
		}
		changes = append(changes, fmt.Sprintf("%s %s instead of %s", bound.name, bound.most.String(), has.String()))
		if err := unstructured.SetNestedField(container, bound.most.String(), "resources", part, bound.name); err != nil {
			return nil, err
		}
	}
	return changes, nil
}

// readQuantity reads an amount, 0 where there is none.
func readQuantity(container map[string]any, part, name string) (resource.Quantity, error) {
	value, found, err := unstructured.NestedFieldNoCopy(container, "resources", part, name)
	if err != nil || !found {
		return resource.Quantity{}, err
	}
	quantity, err := resource.ParseQuantity(fmt.Sprint(value))
	if err != nil {
		return resource.Quantity{}, fmt.Errorf("%s of %s: %w", part, name, err)
	}
	return quantity, nil
}
