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

// ShapeSyntax describes the argument of ParseShape, for help texts.
const ShapeSyntax = "packages:2,numa:4,llcs:4,cores:4,threads:2 (each per parent; also siblings:apart|adjacent and " +
	"memory:64Gi per NUMA node; omitted counts are 1)"

// namedShapes returns the shapes of well-known machines by name.
func namedShapes() map[string]topology.Shape {
	return map[string]topology.Shape{
		"intel-104": topology.Intel104(),
		"amd-256":   topology.AMD256(),
	}
}

// ShapeNames returns the names that ParseShape knows.
func ShapeNames() []string { return slices.Sorted(maps.Keys(namedShapes())) }

// ParseShape reads a shape: a name, or counts such as
//
//	packages:2,numa:4,llcs:4,cores:4,threads:2
//
// of packages per machine, NUMA nodes per package, LLCs per NUMA node, cores per LLC and threads
// per core, in any order. It returns the shape and a name that can be part of a node's name.
func ParseShape(text string) (shape topology.Shape, name string, err error) {
	if shape, ok := namedShapes()[text]; ok {
		return shape, text, nil
	}
	shape = topology.Shape{Packages: 1, NUMAPerPackage: 1, LLCsPerNUMA: 1, CoresPerLLC: 1, ThreadsPerCore: 1}
	seen := map[string]bool{}
	for item := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(item, ":")
		if !ok {
			return shape, "", fmt.Errorf("shape %q: %q is neither a name (%s) nor of the form key:value, as in %s",
				text, item, strings.Join(ShapeNames(), ", "), ShapeSyntax)
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
	return shape, fmt.Sprintf("p%dn%dl%dc%dt%d", shape.Packages, shape.NUMAPerPackage, shape.LLCsPerNUMA,
		shape.CoresPerLLC, shape.ThreadsPerCore), nil
}

func setShape(shape *topology.Shape, key, value string) error {
	switch key {
	case "siblings":
		numberings := map[string]topology.Numbering{"apart": topology.SiblingsApart, "adjacent": topology.SiblingsAdjacent}
		numbering, ok := numberings[value]
		if !ok {
			return fmt.Errorf("siblings is %q, neither apart nor adjacent", value)
		}
		shape.Numbering = numbering
		return nil
	case "memory":
		quantity, err := resource.ParseQuantity(value)
		if err != nil || quantity.Value() < minMemory {
			return fmt.Errorf("memory %q is not an amount such as 64Gi, or less than 1Mi", value)
		}
		shape.MemoryBytesNUMA = uint64(quantity.Value())
		return nil
	}
	count := shape.Count(key)
	if count == nil {
		return fmt.Errorf("unknown key %q; want %s", key, ShapeSyntax)
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 {
		return fmt.Errorf("%s is %q, not a number from 1", key, value)
	}
	*count = n
	return nil
}

// minMemory of a NUMA node. Less is a unit that was forgotten.
const minMemory = 1 << 20

// maxCount is the largest number of nodes in a group. KWOK has been observed with some thousands of
// nodes.
const maxCount = 20000

// ParseCount parses "WHAT=COUNT" or "WHAT", which means a count of one.
func ParseCount(text string) (what string, count int, err error) {
	at := strings.LastIndex(text, "=")
	if at < 0 {
		return text, 1, nil
	}
	count, err = strconv.Atoi(text[at+1:])
	if err != nil || count < 0 || count > maxCount {
		return "", 0, fmt.Errorf("%q: the count is not a number from 0 to %d", text, maxCount)
	}
	return text[:at], count, nil
}
