package nodetopology

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"

	"pinfold.dev/pinfold/core/cpuset"
)

// attributes are those of one zone, or of the object when the zone is "".
type attributes struct {
	zone   string
	values map[string]string
}

func newAttributes(zone string, list v1alpha2.AttributeList) (attributes, error) {
	a := attributes{zone, make(map[string]string, len(list))}
	for _, info := range list {
		if _, ok := a.values[info.Name]; ok {
			return a, at(zone, info.Name, errTwice)
		}
		a.values[info.Name] = info.Value
	}
	return a, nil
}

func (a attributes) text(name string) (string, error) {
	value, ok := a.values[name]
	if !ok {
		return "", at(a.zone, name, errMissing)
	}
	return value, nil
}

func (a attributes) cpus(name string) (cpuset.Set, error) {
	value, err := a.text(name)
	if err != nil {
		return cpuset.Set{}, err
	}
	set, err := cpuset.Parse(value)
	if err != nil {
		return cpuset.Set{}, at(a.zone, name, err)
	}
	return set, nil
}

func (a attributes) parts(name string) ([]part, error) {
	value, err := a.text(name)
	if err != nil {
		return nil, err
	}
	parts, err := parseParts(value)
	if err != nil {
		return nil, at(a.zone, name, err)
	}
	return parts, nil
}

// zone is a zone of one of our types.
type zone struct {
	attributes
	name  string
	id    int
	costs v1alpha2.CostList
}

// newZones sorts the zones of our types by type and, within each, by id.
func newZones(list v1alpha2.ZoneList) (map[string][]zone, error) {
	prefixes := map[string]string{typePackage: prefixPackage, typeNUMA: prefixNUMA, typeLLC: prefixLLC}
	zones := map[string][]zone{}
	for _, z := range list {
		prefix, ours := prefixes[z.Type]
		if !ours {
			continue
		}
		id, err := zoneID(z.Name, prefix)
		if err != nil {
			return nil, at(z.Name, "", fmt.Errorf("zone of type %s: %w", z.Type, err))
		}
		values, err := newAttributes(z.Name, z.Attributes)
		if err != nil {
			return nil, err
		}
		zones[z.Type] = append(zones[z.Type], zone{values, z.Name, id, z.Costs})
	}
	for _, same := range zones {
		slices.SortStableFunc(same, func(a, b zone) int { return cmp.Compare(a.id, b.id) })
		for i := range same[1:] {
			if same[i].id == same[i+1].id {
				return nil, at(same[i].name, "", errTwice)
			}
		}
	}
	return zones, nil
}

// distances returns the costs of a NUMA node's zone in the order of the nodes.
func (z zone) distances(nodes []zone) ([]int, error) {
	distances := make([]int, 0, len(nodes))
	for _, to := range nodes {
		i := slices.IndexFunc(z.costs, func(c v1alpha2.CostInfo) bool { return c.Name == to.name })
		if i < 0 {
			return nil, at(z.name, "", fmt.Errorf("no cost to zone %q", to.name))
		}
		distances = append(distances, int(z.costs[i].Value))
	}
	if len(z.costs) != len(nodes) {
		return nil, at(z.name, "", fmt.Errorf("%d costs for %d NUMA nodes", len(z.costs), len(nodes)))
	}
	return distances, nil
}
