package nodetopology

import (
	"fmt"
	"strconv"
	"strings"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// parseID parses a decimal id without a sign or leading zeros.
func parseID(text string) (int, error) {
	id, err := strconv.Atoi(text)
	if err != nil || id < 0 || strconv.Itoa(id) != text {
		return 0, fmt.Errorf("%q is not an id (0 or more)", text)
	}
	return id, nil
}

// part is one "name:cpulist" of a partition.
type part struct {
	name string
	cpus cpuset.Set
}

// formatParts formats a partition; see the package comment.
func formatParts(parts []part) string {
	var b []byte
	for i, p := range parts {
		if i > 0 {
			b = append(b, ' ')
		}
		b = append(b, p.name...)
		b = append(b, ':')
		b = p.cpus.Append(b)
	}
	return string(b)
}

// maxParts bounds the work for an object: no list has more parts than there are CPUs.
const maxParts = cpuset.MaxCPUs

// parseParts parses parts.
func parseParts(text string) ([]part, error) {
	var parts []part
	for item := range strings.FieldsSeq(text) {
		name, list, ok := strings.Cut(item, ":")
		if !ok {
			return nil, fmt.Errorf("%q is not of the form id:cpulist", item)
		}
		cpus, err := cpuset.Parse(list)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", item, err)
		}
		if parts = append(parts, part{name, cpus}); len(parts) > maxParts {
			return nil, fmt.Errorf("more than %d parts", maxParts)
		}
	}
	return parts, nil
}

// partsOf converts groups of a machine to parts.
func partsOf[ID ~int](groups []topology.Group[ID]) []part {
	parts := make([]part, 0, len(groups))
	for _, g := range groups {
		parts = append(parts, part{strconv.Itoa(int(g.ID)), g.CPUs})
	}
	return parts
}

// parseGroups parses parts whose names are ids, each once.
func parseGroups[ID ~int](text string) ([]topology.Group[ID], error) {
	parts, err := parseParts(text)
	if err != nil {
		return nil, err
	}
	groups := make([]topology.Group[ID], 0, len(parts))
	seen := map[int]bool{}
	for _, p := range parts {
		id, err := parseID(p.name)
		switch {
		case err != nil:
			return nil, err
		case seen[id]:
			return nil, fmt.Errorf("%d is listed twice", id)
		}
		seen[id] = true
		groups = append(groups, topology.Group[ID]{ID: ID(id), CPUs: p.cpus})
	}
	return groups, nil
}

func formatNumbers(numbers []int) string {
	text := make([]string, 0, len(numbers))
	for _, n := range numbers {
		text = append(text, strconv.Itoa(n))
	}
	return strings.Join(text, ",")
}

// parseNumbers parses what formatNumbers returns.
func parseNumbers(text string) ([]int, error) {
	var numbers []int
	for item := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(item)
		if err != nil {
			return nil, fmt.Errorf("%q is not a number", item)
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}
