package nodetopology

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// part is one "name:cpulist" of a partition.
type part struct {
	name string
	cpus cpuset.Set
}

// formatParts writes a partition; see the package comment.
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

// parseParts reads a partition. It does not allow a CPU in two parts.
func parseParts(text string) ([]part, error) {
	var parts []part
	var seen cpuset.Set
	for item := range strings.FieldsSeq(text) {
		name, list, ok := strings.Cut(item, ":")
		if !ok {
			return nil, fmt.Errorf("%q is not of the form id:cpulist", item)
		}
		cpus, err := cpuset.Parse(list)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", item, err)
		}
		if both := cpus.Intersection(seen); !both.IsEmpty() {
			return nil, fmt.Errorf("%q: CPUs %v were listed before", item, both)
		}
		seen = seen.Union(cpus)
		parts = append(parts, part{name, cpus})
	}
	if len(parts) == 0 {
		return nil, errors.New("empty")
	}
	return parts, nil
}

// partsOf makes parts of groups of a machine.
func partsOf[ID ~int](groups []topology.Group[ID]) []part {
	parts := make([]part, 0, len(groups))
	for _, g := range groups {
		parts = append(parts, part{strconv.Itoa(int(g.ID)), g.CPUs})
	}
	return parts
}

// groupsOf makes groups of parts whose names are ids.
func groupsOf[ID ~int](parts []part) ([]topology.Group[ID], error) {
	groups := make([]topology.Group[ID], 0, len(parts))
	for _, p := range parts {
		id, err := parseID(p.name)
		if err != nil {
			return nil, err
		}
		groups = append(groups, topology.Group[ID]{ID: ID(id), CPUs: p.cpus})
	}
	return groups, nil
}
