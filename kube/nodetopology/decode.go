package nodetopology

import (
	"errors"
	"fmt"
	"slices"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
)

// ToMachine decodes an object that was made by [FromMachine]. The machine is valid. The error is a
// [*ForeignError] for an object of another writer. Otherwise it says where the object was damaged
// or edited.
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
	if err != nil {
		return nil, State{}, fmt.Errorf("NodeResourceTopology %s: %w", obj.Name, err)
	}
	return m, state, nil
}

// Decoded is what the object of a node says.
type Decoded struct {
	// Owner is the UID of the node that the object describes, "" if it does not say.
	Owner types.UID
	// Index is that of the machine, or of one that differs in its memory only. It is nil if the
	// object is not usable because of Err.
	Index *placement.Index
	State State
	Err   error
}

// Decode decodes an object. indexes shares the index between equal machines.
func Decode(obj *v1alpha2.NodeResourceTopology, indexes *placement.Indexes) Decoded {
	machine, state, err := ToMachine(obj)
	if err != nil {
		return Decoded{Owner: NodeUID(obj), Err: err}
	}
	return Decoded{Owner: NodeUID(obj), Index: indexes.Of(machine), State: state}
}

// IsOf reports whether the object describes the node with this UID, and not an earlier node of the
// same name, which may have been another machine.
func (d *Decoded) IsOf(node types.UID) bool { return d.Owner == "" || d.Owner == node }

// decode decodes an object. It finds only errors that prevent decoding; the others are left to
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

// verify returns the first difference between an object and the encoding of the machine and state
// decoded from it.
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

// ErrForeign is wrapped by errors about objects of another writer.
var ErrForeign = errors.New("written by another program")

// ForeignError reports that the object of a node belongs to another writer.
type ForeignError struct {
	Node   string
	Writer string // see [Owner]
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("NodeResourceTopology %s was %v (%s): stop that writer on the node or delete the object, "+
		"then the Pinfold agent publishes its own", e.Node, ErrForeign, e.Writer)
}

// Unwrap makes errors.Is(err, [ErrForeign]) true.
func (e *ForeignError) Unwrap() error { return ErrForeign }

var (
	errMissing = errors.New("missing")
	errTwice   = errors.New("listed twice")
)

// at returns an error about one place in an object: about a zone, or the object itself if it is "",
// and one of its attributes if that is not "".
func at(zone, attribute string, err error) error {
	if attribute != "" {
		err = fmt.Errorf("attribute %q: %w", attribute, err)
	}
	if zone != "" {
		err = fmt.Errorf("zone %q: %w", zone, err)
	}
	return err
}
