package topology

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"pinfold.dev/pinfold/core/cpuset"
)

// jsonMachine is the file format of a machine; see [Decode].
type jsonMachine struct {
	CPUs      []CPU      `json:"cpus"`
	NUMANodes []jsonNUMA `json:"numaNodes"`
	Kinds     []Kind     `json:"kinds,omitempty"`
	Offline   cpuset.Set `json:"offline,omitzero"`
	Isolated  cpuset.Set `json:"isolated,omitzero"`
	NoHZFull  cpuset.Set `json:"nohzFull,omitzero"`

	LLCBytes map[LLCID]uint64 `json:"llcBytes,omitempty"`
}

type jsonNUMA struct {
	ID          NUMAID      `json:"id"`
	CPUs        cpuset.Set  `json:"cpus"`
	LocalCPUs   *cpuset.Set `json:"localCPUs,omitempty"`
	MemoryBytes uint64      `json:"memoryBytes"`
	Distances   []int       `json:"distances"`
}

// Decode reads one machine as JSON and validates it:
//
//	{"cpus":[{"id":0,"core":0,"llc":0,"numa":0,"die":0,"package":0,"kind":""}, ...],
//	 "numaNodes":[{"id":0,"cpus":"0-25,52-77","memoryBytes":0,"distances":[10,21]}, ...]}
//
// Ids of cores, LLCs and dies are unique in the machine. Distances are in the order of numaNodes.
// CPUs and nodes may be in any order. Optional fields are "kinds" (kinds of core, fastest first; by
// default ordered by name), "offline", "isolated" and "nohzFull" (CPU lists), "llcBytes" (sizes of
// LLCs by id, such as {"0":16777216}), and "localCPUs" per node. Without "numaNodes", the nodes are
// those that the CPUs name, with distances of 10 and 20. Unknown fields are rejected.
func Decode(r io.Reader) (*Machine, error) {
	var m Machine
	decoder := json.NewDecoder(r)
	if err := decoder.Decode(&m); err != nil {
		return nil, fmt.Errorf("read machine: %w", explain(err))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("read machine: more follows after the machine's closing brace")
	}
	return &m, nil
}

// explain rewrites errors of package json that mention Go types or its reader.
func explain(err error) error {
	var wrongType *json.UnmarshalTypeError
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("it is empty")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it is cut short")
	case errors.As(err, &wrongType) && wrongType.Field != "":
		return fmt.Errorf("%s: a JSON %s does not fit", wrongType.Field, wrongType.Value)
	case errors.As(err, &wrongType):
		return fmt.Errorf("a JSON %s is not a machine, want an object", wrongType.Value)
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok { // this error has no type
		return fmt.Errorf("unknown field %s: check its spelling, or leave it out", name)
	}
	return err
}

// UnmarshalJSON reads the format of [Decode] and validates the machine.
func (m *Machine) UnmarshalJSON(text []byte) error {
	var in jsonMachine
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields() // a misspelled field would be ignored
	if err := decoder.Decode(&in); err != nil {
		return err
	}
	out := Machine{CPUs: in.CPUs, Kinds: in.Kinds, Offline: in.Offline, Isolated: in.Isolated, NoHZFull: in.NoHZFull, LLCBytes: in.LLCBytes}
	slices.SortStableFunc(out.CPUs, func(a, b CPU) int { return cmp.Compare(a.ID, b.ID) })
	if in.NUMANodes == nil {
		out.NUMANodes = nodesOf(out.CPUs)
	} else {
		out.NUMANodes = nodesFromJSON(in.NUMANodes)
	}

	if out.Kinds == nil {
		out.Kinds = KindsOf(out.CPUs)
	}
	if err := out.Validate(); err != nil {
		return err
	}
	*m = out
	return nil
}

// nodesFromJSON sorts the nodes, and their distances, by id.
func nodesFromJSON(in []jsonNUMA) []NUMANode {
	order := make([]int, len(in))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(in[a].ID, in[b].ID) })
	var nodes []NUMANode
	for _, i := range order {
		n := NUMANode{ID: in[i].ID, CPUs: in[i].CPUs, LocalCPUs: in[i].CPUs, MemoryBytes: in[i].MemoryBytes}
		if in[i].LocalCPUs != nil {
			n.LocalCPUs = *in[i].LocalCPUs
		}
		n.Distances = slices.Clone(in[i].Distances)
		if len(n.Distances) == len(in) {
			for to, j := range order {
				n.Distances[to] = in[i].Distances[j]
			}
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// nodesOf returns the NUMA nodes that the CPUs name, with the SLIT's default distances.
func nodesOf(cpus []CPU) []NUMANode {
	var nodes []NUMANode
	for _, c := range cpus {
		if c.NUMA == NoNUMA {
			continue
		}
		i, found := slices.BinarySearchFunc(nodes, c.NUMA, func(n NUMANode, id NUMAID) int { return cmp.Compare(n.ID, id) })
		if !found {
			nodes = slices.Insert(nodes, i, NUMANode{ID: c.NUMA})
		}
		if c.ID.Valid() {
			nodes[i].CPUs.Add(c.ID)
		}
		nodes[i].LocalCPUs = nodes[i].CPUs
	}
	for i := range nodes {
		nodes[i].Distances = slices.Repeat([]int{RemoteDistance}, len(nodes))
		nodes[i].Distances[i] = LocalDistance
	}
	return nodes
}

// MarshalJSON writes the format of [Decode]. It has a value receiver so that machines held by value
// use this format, too.
func (m Machine) MarshalJSON() ([]byte, error) {
	out := jsonMachine{CPUs: append([]CPU{}, m.CPUs...), NUMANodes: make([]jsonNUMA, 0, len(m.NUMANodes)),
		Offline: m.Offline, Isolated: m.Isolated, NoHZFull: m.NoHZFull, LLCBytes: m.LLCBytes}
	for _, n := range m.NUMANodes {
		j := jsonNUMA{ID: n.ID, CPUs: n.CPUs, MemoryBytes: n.MemoryBytes, Distances: n.Distances}
		if n.LocalCPUs != n.CPUs {
			j.LocalCPUs = &n.LocalCPUs
		}
		out.NUMANodes = append(out.NUMANodes, j)
	}
	if len(m.Kinds) > 1 {
		out.Kinds = m.Kinds
	}

	return json.Marshal(out)
}
