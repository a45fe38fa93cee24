package nodetopology

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// Types of zones.
const (
	typePackage = "Package"
	typeNUMA    = "Node"
	typeLLC     = "LLC"
)

// The prefixes of the names of zones. The rest of the name is the id.
const (
	prefixPackage = "package-"
	prefixNUMA    = "node-"
	prefixLLC     = "llc-"
)

// Attributes of zones.
const (
	attrCPUs        = "pinfold.dev/cpus"
	attrCores       = "pinfold.dev/cores"
	attrLocalCPUs   = "pinfold.dev/local-cpus"
	attrMemoryBytes = "pinfold.dev/memory-bytes"
)

// Attributes of the object.
const (
	attrFormat        = "pinfold.dev/format"
	attrSize          = "pinfold.dev/size"
	attrDies          = "pinfold.dev/dies"
	attrKinds         = "pinfold.dev/kinds"
	attrOffline       = "pinfold.dev/offline-cpus"
	attrIsolated      = "pinfold.dev/isolated-cpus"
	attrReserved      = "pinfold.dev/reserved-cpus"
	attrKubeletPolicy = "pinfold.dev/kubelet-cpu-manager-policy"
	attrAgentHealth   = "pinfold.dev/agent-health"
	attrAgentLease    = "pinfold.dev/agent-lease"
	attrDigest        = "pinfold.dev/digest"
)

// format is the version of the format in the package comment.
const format = "1"

// attrPrefix is the prefix of all attributes that this package writes.
const attrPrefix = "pinfold.dev/"

// parseID parses a decimal id without a sign or leading zeros.
func parseID(text string) (int, error) {
	id, err := strconv.Atoi(text)
	if err != nil || id < 0 || strconv.Itoa(id) != text {
		return 0, fmt.Errorf("%q is not an id (0 or more)", text)
	}
	return id, nil
}

// zoneID returns the id in the name of a zone.
func zoneID(name, prefix string) (int, error) {
	text, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return 0, fmt.Errorf("the name must be %q and an id", prefix)
	}
	return parseID(text)
}

func zoneName[ID ~int](prefix string, id ID) string { return prefix + strconv.Itoa(int(id)) }

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

// parseParts parses a partition. No CPU may be in two parts.
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

// partsOf converts groups of a machine to parts.
func partsOf[ID ~int](groups []topology.Group[ID]) []part {
	parts := make([]part, 0, len(groups))
	for _, g := range groups {
		parts = append(parts, part{strconv.Itoa(int(g.ID)), g.CPUs})
	}
	return parts
}

// parseGroups parses a partition whose names are ids.
func parseGroups[ID ~int](text string) ([]topology.Group[ID], error) {
	parts, err := parseParts(text)
	if err != nil {
		return nil, err
	}
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
