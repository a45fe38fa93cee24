package nodetopology

import (
	"errors"
	"fmt"
	"slices"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"

	"pinfold.dev/pinfold/core/topology"
)

// verify reports the first difference between an object and the one that the machine and state read
// from it would be written as.
func verify(obj *v1alpha2.NodeResourceTopology, m *topology.Machine, state State) error {
	want, err := fromValid(obj.Name, m, state)
	if err != nil {
		return err
	}
	for _, w := range want.Zones {
		i := slices.IndexFunc(obj.Zones, func(z v1alpha2.Zone) bool { return z.Name == w.Name && z.Type == w.Type })
		if i < 0 {
			return at(w.Name, "", errMissing)
		}
		have := obj.Zones[i]
		if have.Parent != w.Parent {
			return at(w.Name, "", fmt.Errorf("the parent is %q, but the CPUs say %q", have.Parent, w.Parent))
		}
		if err := verifyAttributes(w.Name, have.Attributes, w.Attributes); err != nil {
			return err
		}
	}
	return verifyAttributes("", obj.Attributes, want.Attributes)
}

func verifyAttributes(zone string, have, want v1alpha2.AttributeList) error {
	values, err := newAttributes(zone, have)
	if err != nil {
		return err
	}
	for _, w := range want {
		value, err := values.text(w.Name)
		if err != nil {
			return err
		}
		if value != w.Value && w.Name == attrDigest {
			return at(zone, w.Name, errors.New("the object was changed after it was written"))
		}
		if value != w.Value {
			return at(zone, w.Name, fmt.Errorf("it is %q, but the rest of the object says %q", value, w.Value))
		}
	}
	return nil
}
