package simnode

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"pinfold.dev/pinfold/core/topology"
)

// ShapeSyntax explains what ParseShape reads, for help texts.
const ShapeSyntax = "packages:2,numa:4,llcs:4,cores:4,threads:2 (each per parent; also siblings:apart|adjacent and " +
	"memory:64Gi per NUMA node; what is left out is 1)"

// namedShapes are the machines that have a name.
func namedShapes() map[string]topology.Shape {
	return map[string]topology.Shape{
		"intel-104": topology.Intel104(),
		"amd-256":   topology.AMD256(),
	}
}

// ParseShape reads a shape: a name, or counts such as
//
//	packages:2,numa:4,llcs:4,cores:4,threads:2
//
// of packages per machine, NUMA nodes per package, LLCs per NUMA node, cores per
// LLC and threads per core, in any order. It returns the shape with a word for it that
// can be part of a node's name.
func ParseShape(text string) (topology.Shape, string, error) {
	if shape, ok := namedShapes()[text]; ok {
		return shape, text, nil
	}
	shape := topology.Shape{Packages: 1, NUMAPerPackage: 1, LLCsPerNUMA: 1, CoresPerLLC: 1, ThreadsPerCore: 1}
	seen := map[string]bool{}
	for item := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(item, ":")
		if !ok {
			return shape, "", fmt.Errorf("shape %q: %q is neither a name (%s) nor of the form key:value, as in %s",
				text, item, strings.Join(slices.Sorted(maps.Keys(namedShapes())), ", "), ShapeSyntax)
		}
		if seen[key] {
			return shape, "", fmt.Errorf("shape %q: %s is given twice", text, key)
		}
		seen[key] = true
		if err := setShape(&shape, key, value); err != nil {
			return shape, "", fmt.Errorf("shape %q: %w", text, err)
		}
	}
	if _, err := shape.Build(); err != nil {
		return shape, "", fmt.Errorf("shape %q: %w", text, err)
	}
	word := fmt.Sprintf("p%dn%dl%dc%dt%d", shape.Packages, shape.NUMAPerPackage, shape.LLCsPerNUMA,
		shape.CoresPerLLC, shape.ThreadsPerCore)
	return shape, word, nil
}

func setShape(shape *topology.Shape, key, value string) error {
	counts := map[string]*int{
		"packages": &shape.Packages,
		"numa":     &shape.NUMAPerPackage,
		"llcs":     &shape.LLCsPerNUMA,
		"cores":    &shape.CoresPerLLC,
		"threads":  &shape.ThreadsPerCore,
	}
	switch key {
	case "siblings":
		return setNumbering(shape, value)
	case "memory":
		quantity, err := resource.ParseQuantity(value)
		if err != nil || quantity.Sign() <= 0 {
			return fmt.Errorf("memory %q is no amount such as 64Gi", value)
		}
		shape.MemoryBytesNUMA = uint64(quantity.Value())
		return nil
	}
	count, ok := counts[key]
	if !ok {
		return fmt.Errorf("unknown key %q; want %s", key, ShapeSyntax)
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 {
		return fmt.Errorf("%s is %q, not a number from 1", key, value)
	}
	*count = n
	return nil
}

func setNumbering(shape *topology.Shape, value string) error {
	numberings := map[string]topology.Numbering{
		"apart":    topology.SiblingsApart,
		"adjacent": topology.SiblingsAdjacent,
	}
	numbering, ok := numberings[value]
	if !ok {
		return fmt.Errorf("siblings is %q, neither apart nor adjacent", value)
	}
	shape.Numbering = numbering
	return nil
}
