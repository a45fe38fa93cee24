package nodetopology

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"weak"

	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
)

// ToMachine returns the machine and the state that an object describes. It returns an error if the
// object was changed after it was written, or describes no valid machine.
func ToMachine(object *NodeTopology) (*topology.Machine, State, error) {
	state, err := object.state()
	var m *topology.Machine
	if err == nil {
		m, err = object.machine()
	}
	if err != nil {
		return nil, State{}, object.wrap(err)
	}
	return m, state, nil
}

func (n *NodeTopology) wrap(err error) error { return fmt.Errorf("NodeTopology %s: %w", n.Name, err) }

func (n *NodeTopology) state() (State, error) {
	if n.Digest != n.digest() {
		return State{}, errors.New("the digest does not match: the object was edited, or the definition of its kind is another version's: apply deploy/chart/crds/nodetopology.yaml of the agent's version")
	}
	reserved, err := cpuset.Parse(n.Status.ReservedCPUs)
	if err != nil {
		return State{}, fmt.Errorf("reservedCPUs: %w", err)
	}
	withheld, err := cpuset.Parse(n.Status.WithheldCPUs)
	if err != nil {
		return State{}, fmt.Errorf("withheldCPUs: %w", err)
	}
	s := n.Status
	allocations, err := s.allocations()
	return State{Writer: api.Shorten(s.Writer, maxText), ReservedCPUs: reserved, WithheldCPUs: withheld, KubeletPolicy: api.Shorten(s.KubeletPolicy, maxText),
		AgentHealth: api.Shorten(s.AgentHealth, maxText), AgentLease: api.Shorten(s.AgentLease, maxText), Allocations: allocations,
		Findings: bounded(s.Findings)}, err
}

// maxAllocations and maxPods bound what one agent makes the readers keep and compute, in bytes of text
// and in pods. The text of a pod with one container has some 150 bytes.
const maxAllocations, maxPods = 1 << 20, 1 << 10

// allocations returns nil if the agent allocates nothing.
func (s *Status) allocations() (api.Allocations, error) {
	if s.Allocator != AllocatorNode {
		return nil, nil
	}
	all, size := api.Allocations{}, 0
	for i, pod := range s.Allocations {
		size += len(pod.Allocation) + len(pod.UID)
		if size > maxAllocations || i == maxPods || len(pod.Allocation) > api.MaxAllocation {
			return nil, fmt.Errorf("allocations: they have more than %d bytes, %d of a pod, or %d pods", maxAllocations, api.MaxAllocation, maxPods)
		}
		a, err := api.DecodeAllocation(pod.Allocation)
		if err != nil {
			return nil, fmt.Errorf("allocations[%d]: %w", i, err)
		}
		all[pod.UID] = a
	}
	return all, nil
}

func (n *NodeTopology) machine() (*topology.Machine, error) {
	m, err := n.Machine.build()
	if err == nil {
		err = m.Validate()
	}
	return m, err
}

// Decoded is a decoded object.
type Decoded struct {
	// Owner is the UID of the node that the object describes, "" if it does not say.
	Owner types.UID
	// Index is that of the machine, or of one that differs in its memory only. It is nil if the
	// object is not usable because of Err.
	Index *placement.Index
	State State
	Err   error
}

// IsOf reports whether the object is about the node with this UID, and not about an earlier one of
// its name.
func (d *Decoded) IsOf(node types.UID) bool { return d.Owner == "" || d.Owner == node }

// Decoder decodes objects. The nodes of a cluster have few different machines: each is decoded
// once, and has one index as long as that is used.
type Decoder struct {
	mu    sync.Mutex
	known map[Machine]weak.Pointer[placement.Index] // by the text without the memory
}

// NewDecoder returns a Decoder that knows no machine.
func NewDecoder() *Decoder { return &Decoder{known: map[Machine]weak.Pointer[placement.Index]{}} }

// Decode decodes an object.
func (d *Decoder) Decode(object *NodeTopology) Decoded {
	out := Decoded{Owner: NodeUID(object)}
	if out.State, out.Err = object.state(); out.Err == nil {
		out.Index, out.Err = d.index(object)
	}
	if out.Err != nil {
		out.State, out.Err = State{}, object.wrap(out.Err)
	}
	return out
}

func (d *Decoder) index(object *NodeTopology) (*placement.Index, error) {
	key := object.Machine
	key.MemoryBytes = ""
	if index := d.find(key); index != nil {
		return index, nil
	}
	m, err := object.machine() // others must not wait for the objects of one node
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if index := d.known[key].Value(); index != nil {
		return index, nil
	}
	maps.DeleteFunc(d.known, func(_ Machine, p weak.Pointer[placement.Index]) bool { return p.Value() == nil })
	index := placement.NewIndex(m)
	d.known[key] = weak.Make(index)
	return index, nil
}

func (d *Decoder) find(key Machine) *placement.Index {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known[key].Value()
}
