package advice

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"

	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/report"
)

// burstAnnotation is the word of kube/api, which is not linked here.
const burstAnnotation = "pinfold.dev/cpu-burst"

// pod is what one patch is for.
type pod struct {
	Namespace, Name string
	Burst           float64 // multiples of the quota
	Containers      []patched
}

// patched is a container of it.
type patched struct {
	Name string
	*Container
}

// Patches writes a strategic merge patch for each pod, as YAML documents. What is left out
// is returned as sentences. Only names that Kubernetes would take are passed on.
func (r *Report) Patches(w io.Writer) (pods int, left []string, err error) {
	var all []*pod
	for i := range r.Containers {
		c := &r.Containers[i]
		namespace, name, container, ok := podNames(c.Name)
		switch {
		case !ok:
			left = append(left, fmt.Sprintf("%s is no container with a name such as NAMESPACE/POD/CONTAINER, and is left out", c.title()))
		case !c.LimitWithBurst.Enough:
			left = append(left, fmt.Sprintf("%s is left out: %s", c.title(), report.Printable(c.LimitWithBurst.Reason)))
		default:
			all = addTo(all, namespace, name, r.Goal.Burst, patched{container, c})
		}
	}
	tmpl, err := patchTemplate()
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
	return len(all), left, nil
}

// addTo adds a container to its pod. Of several recordings of it, the one that needs most
// counts.
func addTo(all []*pod, namespace, name string, burst float64, c patched) []*pod {
	at := slices.IndexFunc(all, func(p *pod) bool { return p.Namespace == namespace && p.Name == name })
	if at < 0 {
		return append(all, &pod{namespace, name, burst, []patched{c}})
	}
	p := all[at]
	for i, known := range p.Containers {
		if known.Name == c.Name {
			if c.LimitWithBurst.LimitCPUs > known.LimitWithBurst.LimitCPUs {
				p.Containers[i] = c
			}
			return all
		}
	}
	p.Containers = append(p.Containers, c)
	return all
}

// podNames reads NAMESPACE/POD/CONTAINER.
func podNames(name string) (namespace, pod, container string, ok bool) {
	parts := strings.Split(name, "/")
	if len(parts) != 3 {
		return "", "", "", false
	}
	label := regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	subdomain := regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)
	ok = label.MatchString(parts[0]) && subdomain.MatchString(parts[1]) && label.MatchString(parts[2])
	return parts[0], parts[1], parts[2], ok
}

// Quantity is the limit as Kubernetes writes it.
func (p patched) Quantity() string {
	return fmt.Sprintf("%.0fm", math.Ceil(1000*p.LimitWithBurst.LimitCPUs-1e-6))
}

// Policy is the annotation's value.
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

// Resize is the patch of a running pod. It has one container, since a merge of several may
// put them in another order, which the API server refuses.
func (p patched) Resize() string {
	return fmt.Sprintf(`{"spec":{"containers":[{"name":%q,"resources":{"limits":{"cpu":%q}}}]}}`, p.Name, p.Quantity())
}

// Annotation is its name.
func (*pod) Annotation() string { return burstAnnotation }

// Because are comments on where the limits come from.
func (p *pod) Because() []string {
	var lines []string
	for _, c := range p.Containers {
		with := limitRow("", &c.LimitWithBurst, 0)
		lines = append(lines, wrap(fmt.Sprintf("Container %s, recorded for %s in %s: %s.", c.Name, lasting(c.Recorded.Time.Duration),
			report.Printable(c.File), with.sentence()), widest-2)...)
		if l := &c.LimitWithoutBurst; l.Enough && p.Burst > 0 {
			lines = append(lines, wrap(fmt.Sprintf("Where pinfold-agent does not run there is no burst: then take %s (%.0fm).",
				quantity.CPUs(l.LimitCPUs), 1000*l.LimitCPUs), widest-2)...)
		}
		for _, w := range c.Warnings {
			lines = append(lines, wrap("Note: "+report.Printable(w)+".", widest-2)...)
		}
	}
	return lines
}
