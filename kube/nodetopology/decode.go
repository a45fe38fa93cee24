package nodetopology

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// ToMachine reads an object that [FromMachine] made. The machine is valid. It
// returns a [*ForeignError] for an object of another writer, and a
// [*MalformedError] for one of ours that is not as it was written.
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

// decode reads what is there. It finds the errors that keep it from that; the
// others are left to Validate and verify.
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

// builder collects a machine. The cores of the LLC zones say which CPUs there
// are; all other parts must be made of these.
type builder struct {
	cpus    map[cpuset.CPU]*topology.CPU
	machine topology.Machine
	state   State
}

func (b *builder) readLLCs(zones []zone) error {
	for _, z := range zones {
		parts, err := z.parts(attrCores)
		if err != nil {
			return err
		}
		cores, err := groupsOf[topology.CoreID](parts)
		if err != nil {
			return at(z.name, attrCores, err)
		}
		for _, core := range cores {
			for id := range core.CPUs.All() {
				if b.cpus[id] != nil {
					return at(z.name, attrCores, fmt.Errorf("CPU %d is in zone %q too", id, zoneName(prefixLLC, b.cpus[id].LLC)))
				}
				b.cpus[id] = &topology.CPU{ID: id, Core: core.ID, LLC: topology.LLCID(z.id), NUMA: topology.NoNUMA,
					Die: -1, Package: -1}
			}
		}
	}
	return nil
}

func (b *builder) readPackages(zones []zone) error {
	for _, z := range zones {
		cpus, err := z.cpus(attrCPUs)
		if err != nil {
			return err
		}
		if err := b.each(cpus, func(c *topology.CPU) { c.Package = topology.PackageID(z.id) }); err != nil {
			return at(z.name, attrCPUs, err)
		}
	}
	return nil
}

func (b *builder) readNUMANodes(zones []zone) error {
	for _, z := range zones {
		node := topology.NUMANode{ID: topology.NUMAID(z.id)}
		var err error
		if node.CPUs, err = z.cpus(attrCPUs); err != nil {
			return err
		}
		if err := b.each(node.CPUs, func(c *topology.CPU) { c.NUMA = node.ID }); err != nil {
			return at(z.name, attrCPUs, err)
		}
		node.LocalCPUs = node.CPUs
		if _, ok := z.values[attrLocalCPUs]; ok {
			if node.LocalCPUs, err = z.cpus(attrLocalCPUs); err != nil {
				return err
			}
		}
		bytes, err := z.text(attrMemoryBytes)
		if err != nil {
			return err
		}
		if node.MemoryBytes, err = strconv.ParseUint(bytes, 10, 64); err != nil {
			return at(z.name, attrMemoryBytes, fmt.Errorf("%q is not a number of bytes", bytes))
		}
		if node.Distances, err = z.distances(zones); err != nil {
			return err
		}
		b.machine.NUMANodes = append(b.machine.NUMANodes, node)
	}
	return nil
}

func (b *builder) readObject(top attributes) error {
	dies, err := top.parts(attrDies)
	if err != nil {
		return err
	}
	groups, err := groupsOf[topology.DieID](dies)
	if err != nil {
		return at("", attrDies, err)
	}
	for _, die := range groups {
		if err := b.each(die.CPUs, func(c *topology.CPU) { c.Die = die.ID }); err != nil {
			return at("", attrDies, err)
		}
	}
	if err := b.readKinds(top); err != nil {
		return err
	}
	for _, field := range []struct {
		name string
		cpus *cpuset.Set
	}{{attrOffline, &b.machine.Offline}, {attrIsolated, &b.machine.Isolated}, {attrReserved, &b.state.ReservedCPUs}} {
		if *field.cpus, err = top.cpus(field.name); err != nil {
			return err
		}
	}
	if b.state.KubeletPolicy, err = top.text(attrKubeletPolicy); err != nil {
		return err
	}
	b.state.AgentHealth, err = top.text(attrAgentHealth)
	return err
}

func (b *builder) readKinds(top attributes) error {
	if _, ok := top.values[attrKinds]; !ok {
		b.machine.Kinds = []topology.Kind{""}
		return nil
	}
	parts, err := top.parts(attrKinds)
	if err != nil {
		return err
	}
	for _, p := range parts {
		name, err := url.QueryUnescape(p.name)
		if err != nil {
			return at("", attrKinds, err)
		}
		kind := topology.Kind(name)
		b.machine.Kinds = append(b.machine.Kinds, kind)
		if err := b.each(p.cpus, func(c *topology.CPU) { c.Kind = kind }); err != nil {
			return at("", attrKinds, err)
		}
	}
	return nil
}

// each applies set to the CPUs of a part.
func (b *builder) each(cpus cpuset.Set, set func(*topology.CPU)) error {
	for id := range cpus.All() {
		c := b.cpus[id]
		if c == nil {
			return fmt.Errorf("CPU %d is in no %s zone", id, typeLLC)
		}
		set(c)
	}
	return nil
}

func (b *builder) finish() *topology.Machine {
	for _, c := range b.cpus {
		b.machine.CPUs = append(b.machine.CPUs, *c)
	}
	slices.SortFunc(b.machine.CPUs, func(x, y topology.CPU) int { return int(x.ID - y.ID) })
	return &b.machine
}
