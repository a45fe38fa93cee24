package ledger

// Phases finds the largest need of any phase of a pod's life: of the containers
// that run for long together, or of one ordinary init container with the
// sidecars before it.
type Phases[T ~int | ~int64] struct{ sidecars, mains, inits T }

// Add takes the containers in their order; mains and init containers may be
// interleaved, the order among init containers counts.
func (p *Phases[T]) Add(role Role, need T) {
	switch role {
	case RoleInit:
		p.inits = max(p.inits, p.sidecars+need)
	case RoleSidecar:
		p.sidecars += need
	default:
		p.mains += need
	}
}

// Largest is the need of the phase that needs most.
func (p *Phases[T]) Largest() T { return max(p.inits, p.sidecars+p.mains) }
