package nodetopology

import (
	"errors"
	"fmt"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// ToMachine reads an object that [FromMachine] made. The machine is valid. It returns a
// [*ForeignError] for an object of another writer, and a [*MalformedError] for one of ours that is
// not as it was written.
func ToMachine(obj *v1alpha2.NodeResourceTopology) (*topology.Machine, State, error) {
	if writer, ours := Owner(obj); !ours {
		return nil, State{}, &ForeignError{Node: obj.Name, Writer: writer}
	}
	m, state, err := decode(obj)
	if err == nil {
		err = m.Validate()
	}
	if err == nil {
		err = verify(obj, m, state)
	}
	if err == nil {
		return m, state, nil
	}
	if malformed := (*MalformedError)(nil); errors.As(err, &malformed) {
		malformed.Node = obj.Name
		return nil, State{}, malformed
	}
	return nil, State{}, &MalformedError{Node: obj.Name, Err: err}
}

// decode reads what is there. It finds the errors that keep it from that; the others are left to
// Validate and verify.
func decode(obj *v1alpha2.NodeResourceTopology) (*topology.Machine, State, error) {
	top, err := newAttributes("", obj.Attributes)
	if err != nil {
		return nil, State{}, err
	}
	if version, err := top.text(attrFormat); err != nil {
		return nil, State{}, err
	} else if version != format {
		return nil, State{}, at("", attrFormat, fmt.Errorf("%q is not the form %q that this program reads: "+
			"run the same version of Pinfold everywhere", version, format))
	}
	zones, err := newZones(obj.Zones)
	if err != nil {
		return nil, State{}, err
	}
	b := builder{cpus: map[cpuset.CPU]*topology.CPU{}}
	for _, read := range []func() error{
		func() error { return b.readLLCs(zones[typeLLC]) },
		func() error { return b.readPackages(zones[typePackage]) },
		func() error { return b.readNUMANodes(zones[typeNUMA]) },
		func() error { return b.readObject(top) },
	} {
		if err := read(); err != nil {
			return nil, State{}, err
		}
	}
	return b.finish(), b.state, nil
}
