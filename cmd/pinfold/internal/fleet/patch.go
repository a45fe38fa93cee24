package fleet

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/core/names"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/verdict"
	"pinfold.dev/pinfold/kube/api"
)

// object is a part of an object of Kubernetes.
type object = map[string]any

// Patches returns kustomize patches by the names of their files, one for each workload with a sure verdict
// that changes something, and how many workloads have one and no patch, because pods are made by something
// else.
func Patches(all []Workload, r *Request) (patches map[string][]byte, left int, err error) {
	byWorkload := map[[2]string][]*Workload{}
	for i := range all {
		if w := &all[i]; w.changes() {
			key := [2]string{w.Namespace, w.Workload}
			byWorkload[key] = append(byWorkload[key], w)
		}
	}
	patches = map[string][]byte{}
	for key, containers := range byWorkload {
		kind, name, _ := strings.Cut(key[1], "/")
		file := fmt.Sprintf("%s.%s.%s.yaml", key[0], strings.ToLower(kind), name) // neither of the first two has a dot
		// Whoever writes metrics may write other names than those of Kubernetes.
		valid := len(file) < 256 && names.IsLabel(key[0]) && names.IsName(name) && !slices.ContainsFunc(containers, func(w *Workload) bool { return !names.IsLabel(w.Container) })
		wrap, known := map[string]func(object) object{
			"Deployment":  func(template object) object { return object{"template": template} },
			"StatefulSet": func(template object) object { return object{"template": template} },
			"DaemonSet":   func(template object) object { return object{"template": template} },
			"CronJob": func(template object) object {
				return object{"jobTemplate": object{"spec": object{"template": template}}}
			},
		}[kind]
		if !valid || !known {
			left++
			continue
		}
		group := "apps/v1"
		if kind == "CronJob" {
			group = "batch/v1"
		}
		text, err := yaml.Marshal(object{"apiVersion": group, "kind": kind, "metadata": object{"name": name, "namespace": key[0]}, "spec": wrap(podTemplate(containers))})
		if err != nil {
			return nil, 0, fmt.Errorf("write a patch for %s: %w", key[1], err)
		}
		var head strings.Builder
		for _, w := range containers {
			fmt.Fprintf(&head, "# %s: %s (%s).\n", w.Container, w.Reason, r.At.UTC().Format("2006-01-02"))
		}
		patches[file] = append([]byte(head.String()), text...)
	}
	return patches, left, nil
}

// changes reports whether the verdict is to change something, and sure.
func (w *Workload) changes() bool {
	switch w.Action {
	case verdict.Burst:
		return true
	case verdict.Raise, verdict.Remove, verdict.Lower: // what happens to the request must be known
		return w.request > 0 && (w.Action == verdict.Remove || w.Advised >= w.request || w.Advised > 0 && w.request == w.Limit)
	}
	return false
}

// burst is the annotation's value of a burst as large as the quota.
const burst = `{"policy":"burst","burstPercent":100}`

// podTemplate is the part of a pod template that changes: a burst for the pod, and limits of containers. A
// limit that is null is removed; the request is written then, because it may come from the limit. A request as
// large as the limit stays that, which the class Guaranteed takes.
func podTemplate(containers []*Workload) object {
	t := object{}
	var limits []object
	for _, w := range containers {
		var limit any
		if w.Action != verdict.Remove {
			limit = quantity.CPUs(w.Advised).Amount()
			t["metadata"] = object{"annotations": object{api.CPUBurstAnnotation: burst}}
		}
		if w.Action != verdict.Burst {
			resources := object{"limits": object{"cpu": limit}}
			switch {
			case w.Action == verdict.Remove:
				resources["requests"] = object{"cpu": quantity.CPUs(w.request).Amount()}
			case w.request == w.Limit:
				resources["requests"] = object{"cpu": limit}
			}
			limits = append(limits, object{"name": w.Container, "resources": resources})
		}
	}
	if limits != nil {
		t["spec"] = object{"containers": limits}
	}
	return t
}

// WritePatches writes patches to a new directory, all or none.
func WritePatches(dir string, patches map[string][]byte) (err error) {
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--patches %s: it exists: name a new directory", dir)
	}
	temporary, err := os.MkdirTemp(filepath.Dir(filepath.Clean(dir)), ".pinfold-patches-")
	if err != nil {
		return fmt.Errorf("--patches: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	for name, text := range patches {
		if err := os.WriteFile(filepath.Join(temporary, name), text, 0o644); err != nil { //nolint:gosec // patches are no secret
			return fmt.Errorf("--patches: %w", err)
		}
	}
	if err := os.Chmod(temporary, 0o755); err != nil { //nolint:gosec // as above
		return fmt.Errorf("--patches: %w", err)
	}
	if err := os.Rename(temporary, dir); err != nil {
		return fmt.Errorf("--patches: %w", err)
	}
	return nil
}
