package nodetopology

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// builder assembles a machine from its text.
type builder struct {
	cpus    map[cpuset.CPU]*topology.CPU
	online  cpuset.Set
	machine topology.Machine
}

// build returns a machine that has not been validated.
func (t *Machine) build() (*topology.Machine, error) {
	b := builder{cpus: map[cpuset.CPU]*topology.CPU{}}
	for _, field := range []struct {
		name, text string
		read       func(text string) error
	}{
		{"cores", t.Cores, b.readCores},
		{"llcs", t.LLCs, func(text string) error {
			return partition(&b, text, func(c *topology.CPU) *topology.LLCID { return &c.LLC })
		}},
		{"dies", t.Dies, func(text string) error {
			return partition(&b, text, func(c *topology.CPU) *topology.DieID { return &c.Die })
		}},
		{"packages", t.Packages, func(text string) error {
			return partition(&b, text, func(c *topology.CPU) *topology.PackageID { return &c.Package })
		}},
		{"numaNodes", t.NUMANodes, b.readNUMANodes},
		{"localCPUs", t.LocalCPUs, b.readLocalCPUs},
		{"distances", t.Distances, b.readDistances},
		{"memoryBytes", t.MemoryBytes, b.readMemory},
		{"kinds", t.Kinds, b.readKinds},
		{"offlineCPUs", t.Offline, func(text string) (err error) { b.machine.Offline, err = cpuset.Parse(text); return err }},
		{"isolatedCPUs", t.Isolated, func(text string) (err error) { b.machine.Isolated, err = cpuset.Parse(text); return err }},
	} {
		if err := field.read(field.text); err != nil {
			return nil, fmt.Errorf("%s: %w", field.name, err)
		}
	}
	for id := range b.online.All() {
		b.machine.CPUs = append(b.machine.CPUs, *b.cpus[id])
	}
	return &b.machine, nil
}

// readCores learns which CPUs there are.
func (b *builder) readCores(text string) error {
	cores, err := parseGroups[topology.CoreID](text)
	if err != nil {
		return err
	}
	for _, core := range cores {
		if both := core.CPUs.Intersection(b.online); !both.IsEmpty() {
			return fmt.Errorf("CPUs %v were listed before", both)
		}
		b.online = b.online.Union(core.CPUs)
		for id := range core.CPUs.All() {
			b.cpus[id] = &topology.CPU{ID: id, Core: core.ID, NUMA: topology.NoNUMA}
		}
	}
	return nil
}

// partition sets a field of every CPU to the id of the group that contains it.
func partition[ID ~int](b *builder, text string, field func(*topology.CPU) *ID) error {
	groups, err := parseGroups[ID](text)
	if err != nil {
		return err
	}
	rest := b.online
	for _, g := range groups {
		if err := b.take(&rest, g.CPUs, func(c *topology.CPU) { *field(c) = g.ID }); err != nil {
			return err
		}
	}
	return allTaken(rest)
}

// take calls set for CPUs, which must be in rest, and removes them from it.
func (b *builder) take(rest *cpuset.Set, cpus cpuset.Set, set func(*topology.CPU)) error {
	if unknown := cpus.Difference(b.online); !unknown.IsEmpty() {
		return fmt.Errorf("CPUs %v are in no core", unknown)
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

func allTaken(rest cpuset.Set) error {
	if rest.IsEmpty() {
		return nil
	}
	return fmt.Errorf("CPUs %v are missing", rest)
}

func (b *builder) readNUMANodes(text string) error {
	nodes, err := parseGroups[topology.NUMAID](text)
	if err != nil {
		return err
	}
	rest := b.online
	for _, n := range nodes {
		if err := b.take(&rest, n.CPUs, func(c *topology.CPU) { c.NUMA = n.ID }); err != nil {
			return err
		}
		b.machine.NUMANodes = append(b.machine.NUMANodes, topology.NUMANode{ID: n.ID, CPUs: n.CPUs, LocalCPUs: n.CPUs})
	}
	return nil
}

func (b *builder) readLocalCPUs(text string) error {
	local, err := parseGroups[topology.NUMAID](text)
	if err != nil {
		return err
	}
	for _, l := range local {
		i := slices.IndexFunc(b.machine.NUMANodes, func(n topology.NUMANode) bool { return n.ID == l.ID })
		if i < 0 {
			return fmt.Errorf("there is no NUMA node %d", l.ID)
		}
		b.machine.NUMANodes[i].LocalCPUs = l.CPUs
	}
	return nil
}

func (b *builder) readDistances(text string) error {
	return b.perNode(text, func(n *topology.NUMANode, item string) (err error) {
		n.Distances, err = parseNumbers(item)
		return err
	})
}

func (b *builder) readMemory(text string) error {
	return b.perNode(text, func(n *topology.NUMANode, item string) (err error) {
		if n.MemoryBytes, err = strconv.ParseUint(item, 10, 64); err != nil {
			return fmt.Errorf("%q is not a number of bytes", item)
		}
		return nil
	})
}

// perNode reads a list of one item per NUMA node.
func (b *builder) perNode(text string, read func(n *topology.NUMANode, item string) error) error {
	items := strings.Fields(text)
	if len(items) != len(b.machine.NUMANodes) {
		return fmt.Errorf("%d for %d NUMA nodes", len(items), len(b.machine.NUMANodes))
	}
	for i, item := range items {
		if err := read(&b.machine.NUMANodes[i], item); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) readKinds(text string) error {
	if text == "" {
		b.machine.Kinds = []topology.Kind{""}
		return nil
	}
	parts, err := parseParts(text)
	if err != nil {
		return err
	}
	rest := b.online
	for _, p := range parts {
		name, err := url.QueryUnescape(p.name)
		if err != nil {
			return err
		}
		kind := topology.Kind(name)
		b.machine.Kinds = append(b.machine.Kinds, kind)
		if err := b.take(&rest, p.cpus, func(c *topology.CPU) { c.Kind = kind }); err != nil {
			return err
		}
	}
	return allTaken(rest)
}
