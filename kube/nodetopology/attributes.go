package nodetopology

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
)

// attributes are the attributes of one zone, or of the object if zone is "".
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

// parse returns the value of an attribute, parsed by f.
func parse[T any](a attributes, name string, f func(string) (T, error)) (value T, err error) {
	text, err := a.text(name)
	if err != nil {
		return value, err
	}
	if value, err = f(text); err != nil {
		return value, at(a.zone, name, err)
	}
	return value, nil
}

// zone is a zone of one of the types of this package.
type zone struct {
	attributes
	name  string
	id    int
	costs v1alpha2.CostList
}

// newZones returns the zones by type, sorted by id. It ignores zones of other types.
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
