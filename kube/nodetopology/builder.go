package nodetopology

import (
	"fmt"
	"net/url"
	"strconv"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// builder builds a machine. The cores of the LLC zones define the CPUs; all other parts must
// consist of these.
type builder struct {
	cpus    map[cpuset.CPU]*topology.CPU
	online  cpuset.Set
	machine topology.Machine
	state   State
}

func (b *builder) readLLCs(zones []zone) error {
	for _, z := range zones {
		cores, err := parse(z.attributes, attrCores, parseGroups[topology.CoreID])
		if err != nil {
			return err
		}
		for _, core := range cores {
			for id := range core.CPUs.All() {
				if b.cpus[id] != nil {
					return at(z.name, attrCores, fmt.Errorf("CPU %d is in zone %q too", id, zoneName(prefixLLC, b.cpus[id].LLC)))
				}
				b.cpus[id] = &topology.CPU{ID: id, Core: core.ID, LLC: topology.LLCID(z.id), NUMA: topology.NoNUMA}
				b.online.Add(id)
			}
		}
	}
	return nil
}

func (b *builder) readPackages(zones []zone) error {
	rest := b.online
	for _, z := range zones {
		cpus, err := parse(z.attributes, attrCPUs, cpuset.Parse)
		if err != nil {
			return err
		}
		if err := b.take(&rest, cpus, func(c *topology.CPU) { c.Package = topology.PackageID(z.id) }); err != nil {
			return at(z.name, attrCPUs, err)
		}
	}
	if !rest.IsEmpty() {
		return at("", "", fmt.Errorf("CPUs %v are in no %s zone", rest, typePackage))
	}
	return nil
}

func (b *builder) readNUMANodes(zones []zone) error {
	rest := b.online
	for _, z := range zones {
		node := topology.NUMANode{ID: topology.NUMAID(z.id)}
		var err error
		if node.CPUs, err = parse(z.attributes, attrCPUs, cpuset.Parse); err != nil {
			return err
		}
		if err := b.take(&rest, node.CPUs, func(c *topology.CPU) { c.NUMA = node.ID }); err != nil {
			return at(z.name, attrCPUs, err)
		}
		node.LocalCPUs = node.CPUs
		if _, ok := z.values[attrLocalCPUs]; ok {
			if node.LocalCPUs, err = parse(z.attributes, attrLocalCPUs, cpuset.Parse); err != nil {
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
	err := b.readDies(top)
	if err == nil {
		err = b.readKinds(top)
	}
	if err != nil {
		return err
	}
	for _, field := range []struct {
		name string
		cpus *cpuset.Set
	}{{attrOffline, &b.machine.Offline}, {attrIsolated, &b.machine.Isolated}, {attrReserved, &b.state.ReservedCPUs}} {
		if *field.cpus, err = parse(top, field.name, cpuset.Parse); err != nil {
			return err
		}
	}
	if b.state.KubeletPolicy, err = top.text(attrKubeletPolicy); err != nil {
		return err
	}
	b.state.AgentLease = top.values[attrAgentLease]
	b.state.AgentHealth, err = top.text(attrAgentHealth)
	return err
}

func (b *builder) readDies(top attributes) error {
	dies, err := parse(top, attrDies, parseGroups[topology.DieID])
	if err != nil {
		return err
	}
	rest := b.online
	for _, die := range dies {
		if err := b.take(&rest, die.CPUs, func(c *topology.CPU) { c.Die = die.ID }); err != nil {
			return at("", attrDies, err)
		}
	}
	return allTaken(attrDies, rest)
}

func (b *builder) readKinds(top attributes) error {
	if _, ok := top.values[attrKinds]; !ok {
		b.machine.Kinds = []topology.Kind{""}
		return nil
	}
	parts, err := parse(top, attrKinds, parseParts)
	if err != nil {
		return err
	}
	rest := b.online
	for _, p := range parts {
		name, err := url.QueryUnescape(p.name)
		if err != nil {
			return at("", attrKinds, err)
		}
		kind := topology.Kind(name)
		b.machine.Kinds = append(b.machine.Kinds, kind)
		if err := b.take(&rest, p.cpus, func(c *topology.CPU) { c.Kind = kind }); err != nil {
			return at("", attrKinds, err)
		}
	}
	return allTaken(attrKinds, rest)
}

// take calls set for the CPUs of a part and removes them from rest, the CPUs that were in no
// earlier part of the same kind.
func (b *builder) take(rest *cpuset.Set, cpus cpuset.Set, set func(*topology.CPU)) error {
	if unknown := cpus.Difference(b.online); !unknown.IsEmpty() {
		return fmt.Errorf("CPUs %v are in no %s zone", unknown, typeLLC)
	}
	if taken := cpus.Difference(*rest); !taken.IsEmpty() {
		return fmt.Errorf("CPUs %v were listed before", taken)
	}
	for id := range cpus.All() {
		set(b.cpus[id])
	}
	*rest = rest.Difference(cpus)
	return nil
}

func allTaken(attribute string, rest cpuset.Set) error {
	if rest.IsEmpty() {
		return nil
	}
	return at("", attribute, fmt.Errorf("CPUs %v are missing", rest))
}

func (b *builder) finish() *topology.Machine {
	for id := range b.online.All() {
		b.machine.CPUs = append(b.machine.CPUs, *b.cpus[id])
	}
	return &b.machine
}
