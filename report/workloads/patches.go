package workloads

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/core/counters"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/report"
)

// Choice says what patches change.
type Choice struct {
	Burst, Limit, Request bool
	// MaxFactor is the largest change of an amount: with 4, to between a quarter and four times of it.
	MaxFactor float64
}

// templateOf returns where the pod template of a kind is, or nil if it cannot be patched.
func templateOf(kind string) (apiVersion string, at []string) {
	switch kind {
	case "Deployment", "StatefulSet", "DaemonSet":
		return "apps/v1", []string{"spec", "template"}
	case "CronJob":
		return "batch/v1", []string{"spec", "jobTemplate", "spec", "template"}
	}
	return "", nil
}

// Patches returns the files of a kustomize component, by path: a strategic merge patch for each
// workload with a change that is sure, with its reasons as comments. left are sentences on what is
// left out.
func (r *Report) Patches(c Choice) (files map[string][]byte, left []string, err error) {
	type object struct{ namespace, kind, name string }
	rows := map[object][]*Row{}
	for i := range r.Rows {
		row := &r.Rows[i]
		of := object{row.Namespace, row.Kind, row.Name}
		rows[of] = append(rows[of], row)
	}
	files = map[string][]byte{}
	var patches []any
	for of, rows := range rows {
		if slices.ContainsFunc(rows, func(r *Row) bool { return r.Excluded }) {
			left = append(left, fmt.Sprintf("%s is left out: it is excluded by a label", report.Printable(of.namespace+"/"+of.name)))
			continue
		}
		p := patch{choice: c}
		for _, row := range rows {
			p.add(row)
		}
		left = append(left, p.left...)
		if len(p.containers) == 0 && !p.burst {
			continue
		}
		apiVersion, at := templateOf(of.kind)
		switch {
		case at == nil:
			left = append(left, fmt.Sprintf("%s is left out: it is a %s, whose containers no patch can change", report.Printable(of.namespace+"/"+of.name), report.Printable(of.kind)))
			continue
		case !report.IsLabel(of.namespace) || !report.IsName(of.name) || slices.ContainsFunc(rows, func(r *Row) bool { return !report.IsLabel(r.Container) }):
			left = append(left, fmt.Sprintf("%s is left out: Kubernetes would not accept its name, or that of a container", report.Printable(of.namespace+"/"+of.name)))
			continue
		}
		var spec any = p.podTemplate()
		for _, field := range slices.Backward(at) {
			spec = map[string]any{field: spec}
		}
		text, err := yaml.Marshal(map[string]any{"apiVersion": apiVersion, "kind": of.kind, "metadata": map[string]any{"namespace": of.namespace, "name": of.name}, "spec": spec.(map[string]any)["spec"]})
		if err != nil {
			return nil, nil, fmt.Errorf("patch %s/%s: %w", of.namespace, of.name, err)
		}
		file := path.Join(of.namespace, strings.ToLower(of.kind)+"-"+of.name+".yaml")
		files[file] = append([]byte(p.comments.String()), text...)
		patches = append(patches, map[string]any{"path": file})
	}
	slices.SortFunc(patches, func(a, b any) int {
		return strings.Compare(a.(map[string]any)["path"].(string), b.(map[string]any)["path"].(string))
	})
	slices.Sort(left)
	text, err := yaml.Marshal(map[string]any{"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component", "patches": patches})
	if err != nil {
		return nil, nil, fmt.Errorf("kustomization.yaml: %w", err)
	}
	if len(files) > 0 {
		files["kustomization.yaml"] = text
	}
	return files, left, nil
}

// patch is what changes in the pods of a workload.
type patch struct {
	choice     Choice
	burst      bool
	containers []any
	comments   strings.Builder
	left       []string
}

// injected are the names of containers that service meshes and the like add to pods when these are
// created. A patch of a pod template would add a container without an image.
func injected() []string {
	return []string{"consul-dataplane", "daprd", "istio-proxy", "kuma-sidecar", "linkerd-proxy", "vault-agent"}
}

// add adds what changes in a container.
func (p *patch) add(r *Row) {
	if slices.Contains(injected(), r.Container) {
		if r.Burst || r.NewLimit != nil || r.NewRequest != nil {
			p.leave(r, "it is added to pods when they are created, and no pod template has it")
		}
		return
	}
	limits, requests := map[string]any{}, map[string]any{}
	limit, request := r.Limit, r.Request
	if p.choice.Request && p.wanted(r, "request", r.Request, r.NewRequest) {
		request = r.NewRequest.To
	}
	if p.choice.Limit && p.wanted(r, "limit", r.Limit, r.NewLimit) {
		limit = r.NewLimit.To
	}
	if limit > 0 && request > limit {
		p.leave(r, fmt.Sprintf("its request of %s would be above its new limit of %s", quantity.CPUs(request), quantity.CPUs(limit)))
		return
	}
	if p.choice.Burst && r.Burst {
		p.burst = true
		p.say(r, r.Reason)
	}
	if limit != r.Limit {
		limits["cpu"] = milli(limit)
		p.say(r, r.NewLimit.Reason)
	}
	if request != r.Request {
		requests["cpu"] = milli(request)
		p.say(r, r.NewRequest.Reason)
	}
	resources := map[string]any{}
	if len(limits) > 0 {
		resources["limits"] = limits
	}
	if len(requests) > 0 {
		resources["requests"] = requests
	}
	if len(resources) == 0 {
		return
	}
	if r.Limit > 0 && r.Limit == r.Request && limit != request {
		p.say(r, "its requests will no longer equal its limits, so its pods lose the QoS class Guaranteed if they had it")
	}
	p.containers = append(p.containers, map[string]any{"name": r.Container, "resources": resources})
}

// wanted reports whether a change is sure, and not too large.
func (p *patch) wanted(r *Row, what string, from float64, c *counters.Change) bool {
	switch {
	case c == nil:
		return false
	case !c.Sure:
		p.leave(r, fmt.Sprintf("a %s of %s is not sure", what, quantity.CPUs(c.To)))
		return false
	case from > 0 && max(c.To/from, from/c.To) > p.choice.MaxFactor:
		p.leave(r, fmt.Sprintf("its %s of %s would become %s, which is more than %v times as much or as little", what, quantity.CPUs(from), quantity.CPUs(c.To), p.choice.MaxFactor))
		return false
	}
	return true
}

func (p *patch) leave(r *Row, why string) {
	p.left = append(p.left, fmt.Sprintf("%s is left as it is: %s", report.Printable(r.Namespace+"/"+r.Name+"/"+r.Container), why))
}

func (p *patch) say(r *Row, why string) {
	for _, line := range report.Wrap(fmt.Sprintf("%s: %s.", r.Container, why), 98) {
		p.comments.WriteString("# " + line + "\n")
	}
}

// podTemplate is the change of the pod template. The annotation's name is that of kube/api.
func (p *patch) podTemplate() map[string]any {
	t := map[string]any{}
	if p.burst {
		t["metadata"] = map[string]any{"annotations": map[string]any{"pinfold.dev/cpu-burst": `{"policy":"auto"}`}}
	}
	if len(p.containers) > 0 {
		t["spec"] = map[string]any{"containers": p.containers}
	}
	return t
}

func milli(cpus float64) string { return fmt.Sprintf("%.0fm", math.Ceil(1000*cpus-1e-6)) }
