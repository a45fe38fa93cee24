package nodetopology

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// builder collects a machine. The cores of the LLC zones say which CPUs there are; all other parts
// must be made of these.
type builder struct {
	cpus    map[cpuset.CPU]*topology.CPU
	online  cpuset.Set
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
		cpus, err := z.cpus(attrCPUs)
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
		if node.CPUs, err = z.cpus(attrCPUs); err != nil {
			return err
		}
		if err := b.take(&rest, node.CPUs, func(c *topology.CPU) { c.NUMA = node.ID }); err != nil {
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
		if *field.cpus, err = top.cpus(field.name); err != nil {
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
	parts, err := top.parts(attrDies)
	if err != nil {
		return err
	}
	dies, err := groupsOf[topology.DieID](parts)
	if err != nil {
		return at("", attrDies, err)
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
	parts, err := top.parts(attrKinds)
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

// take applies set to the CPUs of a part and takes them out of rest, the CPUs that no earlier part
// of the same sort had.
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
	for _, c := range b.cpus {
		b.machine.CPUs = append(b.machine.CPUs, *c)
	}
	slices.SortFunc(b.machine.CPUs, func(x, y topology.CPU) int { return int(x.ID - y.ID) })
	return &b.machine
}
