package advice

import (
	"bytes"
	_ "embed" // for the template
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/template"

	"pinfold.dev/pinfold/core/advice"
	"pinfold.dev/pinfold/core/names"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/report"
)

//go:embed patch.yaml.tmpl
var patchTemplate string

// pod is the pod of one patch.
type pod struct {
	Namespace, Name string
	Burst           float64 // multiples of the quota
	Containers      []patched
}

// patched is a container of a pod.
type patched struct {
	Name string
	*Container
	advice.Decision
}

// Patches writes a strategic merge patch for each pod, as YAML documents, and returns sentences on
// what is omitted. Names that Kubernetes does not accept are omitted.
func (r *Report) Patches(w io.Writer) (pods int, omitted []string, err error) {
	var all []*pod
	for i := range r.Containers {
		c := &r.Containers[i]
		namespace, name, container, named := podNames(c.Name)
		d, ok := c.Decide(r.Goal)
		switch {
		case !named:
			omitted = append(omitted, fmt.Sprintf("%s is not a container with a name such as NAMESPACE/POD/CONTAINER, and is left out", c.title()))
		case !ok:
			omitted = append(omitted, fmt.Sprintf("%s is left out: %s", c.title(), report.Printable(c.LimitWithBurst.Reason)))
		case d.Keeps:
			omitted = append(omitted, fmt.Sprintf("%s is left out: it may keep its limit", c.title()))
		default:
			all = addTo(all, namespace, name, patched{container, c, d})
		}
	}
	tmpl, err := template.New("patch").Parse(patchTemplate)
	if err != nil {
		return 0, nil, err
	}
	var b bytes.Buffer
	for i, p := range all {
		if i > 0 {
			b.WriteString("---\n")
		}
		if err := tmpl.Execute(&b, p); err != nil {
			return 0, nil, fmt.Errorf("patch pod %s/%s: %w", p.Namespace, p.Name, err)
		}
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return 0, nil, fmt.Errorf("print the patches: %w", err)
	}
	return len(all), omitted, nil
}

// addTo adds a container to its pod, whose burst is the largest of its containers'. If it was
// recorded several times, the highest limit is used.
func addTo(all []*pod, namespace, name string, c patched) []*pod {
	at := slices.IndexFunc(all, func(p *pod) bool { return p.Namespace == namespace && p.Name == name })
	if at < 0 {
		at, all = len(all), append(all, &pod{Namespace: namespace, Name: name})
	}
	p := all[at]
	p.Burst = max(p.Burst, c.BurstPercent/100)
	for i, known := range p.Containers {
		if known.Name == c.Name {
			if c.LimitCPUs > known.LimitCPUs {
				p.Containers[i] = c
			}
			return all
		}
	}
	p.Containers = append(p.Containers, c)
	return all
}

// podNames parses NAMESPACE/POD/CONTAINER.
func podNames(name string) (namespace, pod, container string, ok bool) {
	parts := strings.Split(name, "/")
	if len(parts) != 3 {
		return "", "", "", false
	}
	ok = names.IsLabel(parts[0]) && names.IsName(parts[1]) && names.IsLabel(parts[2])
	return parts[0], parts[1], parts[2], ok
}

// Quantity returns the limit as a Kubernetes quantity.
func (p patched) Quantity() string {
	return fmt.Sprintf("%.0fm", math.Ceil(1000*p.LimitCPUs-1e-6))
}

// Policy returns the value of the annotation.
func (p *pod) Policy() string {
	percent := int(math.Round(100 * p.Burst))
	if percent == 0 && p.Burst > 0 {
		percent = 1
	}
	if percent == 0 {
		return `{"policy":"none"}`
	}
	return fmt.Sprintf(`{"policy":"burst","burstPercent":%d}`, percent)
}

// Resize returns the patch of a running pod. It contains one container: a merge of several may
// change their order, which the API server rejects.
func (p patched) Resize() string {
	return fmt.Sprintf(`{"spec":{"containers":[{"name":%q,"resources":{"limits":{"cpu":%q}}}]}}`, p.Name, p.Quantity())
}

// Annotation returns its name, that of kube/api, which may not be imported here.
func (*pod) Annotation() string { return "pinfold.dev/cpu-burst" }

// Because returns comments on where the limits come from.
func (p *pod) Because() []string {
	var lines []string
	for _, c := range p.Containers {
		set := c.decisionRow(c.Decision)
		lines = append(lines, report.Wrap(fmt.Sprintf("Container %s, recorded for %s in %s: %s.", c.Name, rounded(c.Recorded.Time.Duration),
			report.Printable(c.File), set.sentence()), maxWidth-2)...)
		if l := &c.LimitWithoutBurst; l.Enough && p.Burst > 0 {
			lines = append(lines, report.Wrap(fmt.Sprintf("Where pinfold-agent does not run there is no burst: then take %s (%.0fm).",
				quantity.CPUs(l.LimitCPUs), 1000*l.LimitCPUs), maxWidth-2)...)
		}
		if c.Repairs && c.Saves() {
			lines = append(lines, report.Wrap(fmt.Sprintf("To save CPUs, set %s (%.0fm)%s%s.", setting(c.LimitWithBurst.LimitCPUs, c.LimitWithBurst.BurstPercent), 1000*c.LimitWithBurst.LimitCPUs,
				late(&c.LimitWithBurst.Delay), now(c.Recorded.Delay)), maxWidth-2)...)
		}
		for _, w := range c.Warnings {
			lines = append(lines, report.Wrap("Note: "+report.Printable(w)+".", maxWidth-2)...)
		}
	}
	return lines
}
