package ledger

// Phases computes the largest need of any phase of a pod's life. A phase is either all long-running
// containers together, or one ordinary init container with the sidecars before it.
type Phases[T ~int | ~int64] struct{ sidecars, mains, inits T }

// Add adds the next container. Init containers must be added in their order; main containers may be
// added at any point.
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

// Largest returns the need of the phase that needs most.
func (p *Phases[T]) Largest() T { return max(p.inits, p.sidecars+p.mains) }
